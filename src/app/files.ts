import type { Config } from '../config/config.ts'
import { createSites } from '../features/sites/routes.ts'
import { addBlob } from '../features/storage/blobs/sql.ts'
import type { Blob } from '../features/storage/blobs/store.ts'
import { isObjectName } from '../features/storage/objects/names.ts'
import { createStorage } from '../features/storage/storage.ts'
import { addressSubject } from '../http/wire/client-address.ts'
import { keptBlobSeconds } from './backups.ts'
import { keepingStore } from './drill.ts'
import type { IdentityGroup } from './identity.ts'
import type { Platform } from './platform.ts'

/** File features: buckets and hosted sites. */
export function createFiles(
  config: Config,
  platform: Platform,
  { keyFor, identify }: IdentityGroup,
  mirror: (blob: Blob) => Promise<void> | undefined,
) {
  const { db, queue, observe, gateways, limiter, publicUrl, changeLog, logKey, isDrill } = platform
  const { cdn } = config.storage
  const purgeAll = config.rate_limit.cdn_purge_all
  const storage = createStorage({
    db,
    queue,
    observe,
    outgoing: gateways,
    config: isDrill ? { ...config.storage, cdn: { ...cdn, provider: '' } } : config.storage,
    mirror,
    keepSeconds: keptBlobSeconds(config, isDrill),
    wrapStore: isDrill ? keepingStore : undefined,
    identify,
    publicBaseUrl: () => publicUrl.get(),
    signingKey: keyFor('storage signatures'),
    logKey,
    wakeLog: () => changeLog.wake(),
    countPurgeAll: async (ip) =>
      purgeAll ? limiter.takeToken('cdn_purge_all', addressSubject(ip), purgeAll) : undefined,
  })
  const sites = createSites({
    db,
    publicBaseUrl: () => publicUrl.get(),
    addBlob,
    readBlob: (id, range) => storage.blobs.read(id, range),
    receive: (call, keep) => storage.uploads.receive(call, keep),
    isObjectName,
    requiresStorage: storage.requires,
  })
  return { features: [storage, sites], hosted: sites.hosted, store: storage.store }
}
