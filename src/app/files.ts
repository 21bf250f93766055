import type { Config } from '../config/config.ts'
import { createStorage } from '../features/storage/storage.ts'
import { addressSubject } from '../http/wire/client-address.ts'
import type { IdentityGroup } from './identity.ts'
import type { Platform } from './platform.ts'

/** What is kept as bytes: files in buckets, and hosted sites. */
export function createFiles(config: Config, platform: Platform, { keyFor }: IdentityGroup) {
  const { db, queue, observe, gateways, limiter, publicUrl } = platform
  const purgeAll = config.rate_limit.cdn_purge_all
  const storage = createStorage({
    db,
    queue,
    observe,
    outgoing: gateways,
    config: config.storage,
    publicBaseUrl: () => publicUrl.get(),
    signingKey: keyFor('storage signatures'),
    countPurgeAll: async (ip) =>
      purgeAll ? limiter.takeToken('cdn_purge_all', addressSubject(ip), purgeAll) : undefined,
  })
  return { features: [storage] }
}
