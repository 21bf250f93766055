import { Readable } from 'node:stream'
import type { S3Client } from '@aws-sdk/client-s3'
import { type BackupTarget, isTargetName, type PutOptions, requireName, type TargetObject } from './target.ts'

export type S3TargetConfig = {
  endpoint: string
  region: string
  accessKey: string
  secretKey: string
  useSsl: boolean
}

type Sdk = typeof import('@aws-sdk/client-s3') & { Upload: typeof import('@aws-sdk/lib-storage').Upload }

const MIN_PART = 8 * 2 ** 20
/** S3 allows 10 000 parts. */
const MAX_PARTS = 9_000
/** Smaller objects are sent at once. */
const WHOLE = 5 * 2 ** 20

/** A prefix of a bucket of any S3-compatible service, addressed by path. */
export class S3Target implements BackupTarget {
  readonly url: string
  readonly #bucket: string
  readonly #prefix: string
  readonly #config: S3TargetConfig
  #loaded: Promise<{ client: S3Client; sdk: Sdk }> | undefined

  constructor(bucket: string, prefix: string, config: S3TargetConfig) {
    this.#bucket = bucket
    this.#prefix = prefix === '' ? '' : `${prefix}/`
    this.#config = config
    this.url = `s3://${bucket}${prefix && `/${prefix}`}`
  }

  async put(name: string, source: AsyncIterable<Buffer>, { signal, expected = 0 }: PutOptions = {}): Promise<number> {
    const { client, sdk } = await this.#load()
    const params = { Bucket: this.#bucket, Key: this.#key(name) }
    const parts: Buffer[] = []
    let bytes = 0
    const rest = source[Symbol.asyncIterator]()
    let isOver = false
    while (bytes < WHOLE && !isOver) {
      const { done, value } = await rest.next()
      if (done) isOver = true
      else {
        parts.push(value)
        bytes += value.length
      }
    }
    if (isOver) {
      const options = signal ? { abortSignal: signal } : {}
      await client.send(new sdk.PutObjectCommand({ ...params, Body: Buffer.concat(parts) }), options)
      return bytes
    }
    async function* all(): AsyncGenerator<Buffer> {
      yield* parts.splice(0)
      for (let next = await rest.next(); !next.done; next = await rest.next()) {
        bytes += next.value.length
        yield next.value
      }
    }
    const body = Readable.from(all(), { objectMode: false, highWaterMark: 2 ** 20 })
    const partSize = Math.max(MIN_PART, Math.ceil(expected / MAX_PARTS))
    const upload = new sdk.Upload({ client, params: { ...params, Body: body }, queueSize: 2, partSize })
    const abort = (): void => void body.destroy(new Error('interrupted'))
    signal?.addEventListener('abort', abort, { once: true })
    try {
      await upload.done()
      if (body.errored) throw body.errored
      return bytes
    } catch (error) {
      body.destroy()
      await this.remove(name).catch(() => {})
      throw body.errored ?? error
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  async get(name: string): Promise<AsyncIterable<Buffer> | undefined> {
    const { client, sdk } = await this.#load()
    try {
      const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket: this.#bucket, Key: this.#key(name) }))
      return Body as Readable
    } catch (error) {
      if (error instanceof sdk.NoSuchKey) return undefined
      throw error
    }
  }

  async *list(prefix: string): AsyncIterable<TargetObject> {
    const { client, sdk } = await this.#load()
    const pages = sdk.paginateListObjectsV2({ client }, { Bucket: this.#bucket, Prefix: this.#prefix + prefix })
    for await (const { Contents = [] } of pages) {
      for (const { Key = '', Size = 0, LastModified } of Contents) {
        const name = Key.slice(this.#prefix.length)
        if (isTargetName(name)) yield { name, bytes: Size, modifiedAt: LastModified?.getTime() ?? 0 }
      }
    }
  }

  async remove(name: string): Promise<void> {
    const { client, sdk } = await this.#load()
    await client.send(new sdk.DeleteObjectCommand({ Bucket: this.#bucket, Key: this.#key(name) }))
  }

  close(): void {
    void this.#loaded?.then(({ client }) => client.destroy())
    this.#loaded = undefined
  }

  #key(name: string): string {
    return this.#prefix + requireName(name)
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
      requestHandler: { connectionTimeout: 10_000, socketTimeout: 60_000 },
      // Many compatible services do not support checksums in trailers; every object carries its own seal.
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
