import type { Readable } from 'node:stream'
import type { ListMultipartUploadsCommandOutput, MultipartUpload, S3Client } from '@aws-sdk/client-s3'
import { budgets } from '../../../core/budgets.ts'
import { unavailable } from '../../../core/errors.ts'
import { isUuid } from '../../../core/uuid.ts'
import type { ByteRange } from '../../../http/files/conditions.ts'
import { type ByteSource, StreamSource } from '../../../http/files/source.ts'
import type { Store, StoredBlob } from './store.ts'

export type S3Config = {
  endpoint: string
  bucket: string
  region: string
  accessKey: string
  secretKey: string
  useSsl: boolean
  maxFileBytes: number
  /** An upload that began this long ago belongs to a dead writer. */
  abandonedMs: number
}

type Sdk = typeof import('@aws-sdk/client-s3') & { Upload: typeof import('@aws-sdk/lib-storage').Upload }

const PREFIX = 'blobs/'
const MIN_PART = 8 * 1024 * 1024
/** S3 allows 10 000 parts. */
const MAX_PARTS = 9_000

/** Room for all downloads and uploads: with fewer, clients that do not read theirs would hold up the others. */
const SOCKETS = { maxSockets: 2 * Math.ceil(budgets.downloads.total / budgets.downloads.each) }

/** Any S3-compatible service, addressed by path. The client library is loaded on first use. */
export class S3Store implements Store {
  readonly unfinishedSweepMs: number
  /** Each write holds a part of the file in memory. */
  readonly maxWrites = 16
  readonly #config: S3Config
  #loaded: Promise<{ client: S3Client; sdk: Sdk }> | undefined

  constructor(config: S3Config) {
    this.#config = config
    this.unfinishedSweepMs = config.abandonedMs
  }

  async write(id: string, source: Readable): Promise<void> {
    const { client, sdk } = await this.#load()
    const upload = new sdk.Upload({
      client,
      params: { Bucket: this.#config.bucket, Key: keyOf(id), Body: source },
      queueSize: 1,
      partSize: Math.max(MIN_PART, Math.ceil(this.#config.maxFileBytes / MAX_PARTS)),
    })
    // A failing source aborts the upload and removes its parts before done() rejects; abort() would not wait for that.
    try {
      await upload.done()
      if (source.errored) throw source.errored
    } catch (error) {
      await this.remove(id).catch(() => {})
      throw source.errored ?? whenAway(error)
    }
  }

  async read(id: string, { start, end }: ByteRange): Promise<ByteSource | undefined> {
    const body = await this.#body(id, { Range: `bytes=${start}-${end}` })
    return body && new StreamSource(body)
  }

  bytes(id: string): Promise<Readable | undefined> {
    return this.#body(id, {})
  }

  async #body(id: string, range: { Range?: string }): Promise<Readable | undefined> {
    const { client, sdk } = await this.#load()
    try {
      const { Body } = await client.send(
        new sdk.GetObjectCommand({ Bucket: this.#config.bucket, Key: keyOf(id), ...range }),
      )
      return Body as Readable
    } catch (error) {
      if (error instanceof sdk.NoSuchKey) return undefined
      throw whenAway(error)
    }
  }

  async remove(id: string): Promise<void> {
    const { client, sdk } = await this.#load()
    await client
      .send(new sdk.DeleteObjectCommand({ Bucket: this.#config.bucket, Key: keyOf(id) }))
      .catch((error: unknown) => Promise.reject(whenAway(error)))
  }

  async *list(): AsyncIterable<StoredBlob> {
    const { client, sdk } = await this.#load()
    const pages = sdk.paginateListObjectsV2({ client }, { Bucket: this.#config.bucket, Prefix: PREFIX })
    for await (const { Contents = [] } of pages) {
      for (const { Key = '', LastModified } of Contents) {
        const id = Key.slice(PREFIX.length)
        if (isUuid(id) && LastModified) yield { id, modifiedAt: LastModified.getTime() }
      }
    }
  }

  async removeUnfinished(): Promise<number> {
    const { client, sdk } = await this.#load()
    const { bucket: Bucket, abandonedMs } = this.#config
    const before = Date.now() - abandonedMs
    let removed = 0
    for await (const { Key, UploadId, Initiated } of this.#unfinished()) {
      if (Initiated === undefined || Initiated.getTime() > before) continue
      try {
        await client.send(new sdk.AbortMultipartUploadCommand({ Bucket, Key, UploadId }))
        removed++
      } catch (error) {
        if (!(error instanceof sdk.NoSuchUpload)) throw error // else it finished meanwhile
      }
    }
    return removed
  }

  async *#unfinished(): AsyncIterable<MultipartUpload> {
    const { client, sdk } = await this.#load()
    const listing = { Bucket: this.#config.bucket, Prefix: PREFIX }
    let marker: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } | undefined = {}
    while (marker) {
      const page: ListMultipartUploadsCommandOutput = await client.send(
        new sdk.ListMultipartUploadsCommand({ ...listing, ...marker }),
      )
      yield* page.Uploads ?? []
      marker = page.IsTruncated ? { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker } : undefined
    }
  }

  async stop(): Promise<void> {
    const loaded = await this.#loaded
    this.#loaded = undefined
    loaded?.client.destroy()
  }

  #load(): Promise<{ client: S3Client; sdk: Sdk }> {
    this.#loaded ??= this.#connect()
    return this.#loaded
  }

  async #connect(): Promise<{ client: S3Client; sdk: Sdk }> {
    const [sdk, { Upload }] = await Promise.all([import('@aws-sdk/client-s3'), import('@aws-sdk/lib-storage')])
    const { endpoint, region, accessKey, secretKey, useSsl } = this.#config
    const client = new sdk.S3Client({
      region,
      forcePathStyle: true,
      // Idle time; longer than we allow our own clients, because an upload forwards their bytes at their pace.
      requestHandler: { connectionTimeout: 10_000, socketTimeout: 150_000, httpAgent: SOCKETS, httpsAgent: SOCKETS },
      // Many compatible services do not support checksums in trailers.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      ...(endpoint !== '' && {
        endpoint: endpoint.includes('://') ? endpoint : `http${useSsl ? 's' : ''}://${endpoint}`,
      }),
      ...(accessKey !== '' && { credentials: { accessKeyId: accessKey, secretAccessKey: secretKey } }),
    })
    return { client, sdk: { ...sdk, Upload } }
  }
}

const AWAY: ReadonlySet<unknown> = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN'],
  ...['TimeoutError', 'SlowDown'],
])

type Failure = { code?: unknown; name?: unknown; $metadata?: { httpStatusCode?: number } } | null

/** A service that cannot be reached or is overloaded is asked again later. 507: a full store, see storeFailure(). */
function whenAway(error: unknown): unknown {
  const { code, name, $metadata } = (error as Failure) ?? {}
  const status = $metadata?.httpStatusCode ?? 0
  const isAway = AWAY.has(code) || AWAY.has(name) || status === 429 || (status >= 500 && status !== 507)
  return isAway ? unavailable('storage unavailable', 1, 'unavailable', error) : error
}

function keyOf(id: string): string {
  if (!isUuid(id)) throw new TypeError('not the id of a blob')
  return PREFIX + id
}
