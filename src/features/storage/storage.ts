import { notFound, reasonOf } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import type { Queue } from '../../db/queue/queue.ts'
import type { Feature } from '../../http/feature.ts'
import type { Identify } from '../../http/guard.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import type { Allowance } from '../../http/rate-limit.ts'
import { requireEnabled } from '../../http/route.ts'
import { Blobs } from './blobs/blobs.ts'
import { LocalStore } from './blobs/local-store.ts'
import { S3Store } from './blobs/s3-store.ts'
import type { Blob, Store } from './blobs/store.ts'
import { bucketRoutes } from './buckets.ts'
import { type CdnConfig, createCdnProvider } from './cdn/provider.ts'
import { Purges, purgeJob } from './cdn/purge.ts'
import { purgeRoute } from './cdn/routes.ts'
import { ImageTransforms } from './images/images.ts'
import { findSharp } from './images/worker.ts'
import { ZipArchive } from './objects/archive.ts'
import { Moving } from './objects/moving.ts'
import { Objects } from './objects/objects.ts'
import { PolicedObjects } from './objects/policed.ts'
import { urlsOfBucket } from './objects/sql.ts'
import { Uploads } from './objects/uploads.ts'
import { objectRoutes } from './routes.ts'
import { createServing } from './serving.ts'
import { Signatures } from './signatures.ts'
import { tusRoutes } from './tus/routes.ts'
import { ResumableUploads } from './tus/uploads.ts'

const EXPIRY_SWEEP_MS = 60_000

type StorageConfig = {
  enabled: boolean
  backend: 'local' | 's3'
  local_path: string
  max_file_size: number
  disk_reserve: number
  ownerless_quota: number
  user_quota_bytes: number
  upload_timeout: number
  upload_expiry: number
  transform_cache_size: number
  public_sizes: readonly string[]
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
  /** Called for the bytes of an upload before its row is written. */
  mirror: (blob: Blob) => Promise<void> | undefined
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
  const blobs = new Blobs({ db, store, queue, observe, keepSeconds: deps.keepSeconds, mirror: deps.mirror })
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
  const resumable = new ResumableUploads({
    ...{ db, store, blobs, objects, uploads, identify: deps.identify },
    ...{ userQuota: config.user_quota_bytes, expirySeconds: config.upload_expiry },
  })
  const archive = new ZipArchive({ db, objects, policed, blobs, identify: deps.identify, baseUrl })
  const images = new ImageTransforms({ db, blobs, cacheBytes: config.transform_cache_size, library: findSharp() })
  const signatures = new Signatures(deps.signingKey)
  const serve = createServing({ objects, blobs, images, signatures, publicSizes: config.public_sizes })
  const requires = requireEnabled(config.enabled, () => notFound('storage is not enabled', 'feature_disabled'))
  const purgeBucket = (bucket: string) => purges.each(urlsOfBucket(bucket, baseUrl()))
  let expiry: NodeJS.Timeout | undefined
  return {
    store,
    blobs,
    uploads,
    requires,
    routes: [
      ...objectRoutes({ objects, uploads, moving, archive, signatures, serve, requires }),
      ...bucketRoutes({ db, purgeBucket, wakePurge: purges.wake, requires }),
      ...tusRoutes({ resumable, maxSize: config.max_file_size, requires }),
      purgeRoute({ db, provider, countPurgeAll: deps.countPurgeAll, requires }),
    ],
    jobs: { cdn_purge: purgeJob(provider, deps.countPurgeAll) },
    start() {
      if (!config.enabled) return
      blobs.start()
      purges.start()
      const sweep = (): void => {
        resumable
          .removeExpired()
          .catch((error: unknown) =>
            observe({ message: 'unfinished uploads not removed', attrs: { error: reasonOf(error) } }),
          )
      }
      expiry = setInterval(sweep, EXPIRY_SWEEP_MS).unref()
    },
    async stop() {
      clearInterval(expiry)
      images.stop()
      await blobs.stop()
    },
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
