import { notFound } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import type { Queue } from '../../db/queue/queue.ts'
import type { Feature } from '../../http/feature.ts'
import type { Identify } from '../../http/guard.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import type { Allowance } from '../../http/rate-limit.ts'
import { requireEnabled } from '../../http/route.ts'
import { Archive } from './archive.ts'
import { Blobs } from './blobs/blobs.ts'
import { LocalStore } from './blobs/local-store.ts'
import { S3Store } from './blobs/s3-store.ts'
import type { Store } from './blobs/store.ts'
import { bucketRoutes } from './buckets.ts'
import { type CdnConfig, createCdnProvider } from './cdn/provider.ts'
import { Purges, purgeJob } from './cdn/purge.ts'
import { purgeRoute } from './cdn/routes.ts'
import { Moving } from './moving.ts'
import { Objects } from './objects.ts'
import { PolicedObjects } from './policed.ts'
import { objectRoutes } from './routes.ts'
import { Signatures } from './signatures.ts'
import { urlsOfBucket } from './sql.ts'
import { Uploads } from './uploads.ts'

type StorageConfig = {
  enabled: boolean
  backend: 'local' | 's3'
  local_path: string
  max_file_size: number
  disk_reserve: number
  ownerless_quota: number
  user_quota_bytes: number
  upload_timeout: number
  s3_endpoint: string
  s3_bucket: string
  s3_access_key: string
  s3_secret_key: string
  s3_region: string
  s3_use_ssl: boolean
  cdn_url: string
  cdn: CdnConfig
}

type Deps = {
  db: Db
  queue: Queue
  observe: Observe
  outgoing: Outgoing
  config: StorageConfig
  /** How long removed files are kept, for backups that have their rows. */
  keepSeconds: number
  /** Around the store of the configuration. */
  wrapStore: ((store: Store) => Store) | undefined
  identify: Identify
  publicBaseUrl: () => string
  /** For signed URLs only. */
  signingKey: Buffer
  /** What the database knows the server by. */
  logKey: string
  /** Readers of the change log have something to read. */
  wakeLog: () => void
  countPurgeAll: (ip: string) => Promise<Allowance | undefined>
}

export type Storage = Feature & { store: Store; blobs: Blobs; uploads: Uploads; requires: () => void }

/** Files in buckets. Other features that store files use `blobs` and `uploads`. */
export function createStorage(deps: Deps): Storage {
  const { db, queue, observe, config } = deps
  const timeoutMs = config.upload_timeout * 1000
  const store = deps.wrapStore?.(createStore(config)) ?? createStore(config)
  const blobs = new Blobs({ db, store, queue, observe, keepSeconds: deps.keepSeconds })
  const uploads = new Uploads(blobs, deps.identify, {
    maxFileBytes: config.max_file_size,
    timeoutMs,
    maxParallel: store.maxWrites,
  })
  const provider = createCdnProvider(config.cdn, deps.outgoing)
  const purges = new Purges(provider, queue)
  const baseUrl = (): string => config.cdn_url || `${deps.publicBaseUrl()}/api/storage`
  const { logKey, wakeLog } = deps
  const quotas = { ownerlessQuota: config.ownerless_quota, userQuota: config.user_quota_bytes }
  const policed = new PolicedObjects({ db, logKey, ...quotas, wakeLog })
  const rows = { db, policed, wakeLog, baseUrl, ...quotas, purge: purges.one, wakePurge: purges.wake }
  const objects = new Objects(rows)
  const moving = new Moving(rows, objects)
  const archive = new Archive({ db, objects, policed, blobs, identify: deps.identify, baseUrl })
  const requires = requireEnabled(config.enabled, () => notFound('storage is not enabled', 'feature_disabled'))
  const purgeBucket = (bucket: string) => purges.each(urlsOfBucket(bucket, baseUrl()))
  return {
    store,
    blobs,
    uploads,
    requires,
    routes: [
      ...objectRoutes({
        objects,
        blobs,
        uploads,
        moving,
        archive,
        signatures: new Signatures(deps.signingKey),
        requires,
      }),
      ...bucketRoutes({ db, purgeBucket, wakePurge: purges.wake, requires }),
      purgeRoute({ db, provider, countPurgeAll: deps.countPurgeAll, requires }),
    ],
    jobs: { cdn_purge: purgeJob(provider, deps.countPurgeAll) },
    start() {
      if (!config.enabled) return
      blobs.start()
      purges.start()
    },
    stop: () => blobs.stop(),
  }
}

export function createStore(config: StorageConfig): Store {
  if (config.backend === 'local') return new LocalStore(config.local_path, config.disk_reserve)
  return new S3Store({
    endpoint: config.s3_endpoint,
    bucket: config.s3_bucket,
    region: config.s3_region,
    accessKey: config.s3_access_key,
    secretKey: config.s3_secret_key,
    useSsl: config.s3_use_ssl,
    maxFileBytes: config.max_file_size,
    abandonedMs: config.upload_timeout * 1000 + 60_000,
  })
}
