import type { Queue } from '../../../db/queue/queue.ts'
import type { Sql } from '../../../db/sql.ts'
import { urlsOfBucket } from '../sql.ts'
import type { Provider } from './provider.ts'

const KIND = 'cdn.purge'
const RETRY_DELAYS = [5, 30, 120, 600, 3_600]

/** Purges that follow from an overwrite or delete: queued with it, so that they happen if and only if it did. */
export class Purges {
  readonly #provider: Provider | undefined
  readonly #queue: Queue

  constructor(provider: Provider | undefined, queue: Queue) {
    this.#provider = provider
    this.#queue = queue
  }

  start(): void {
    const provider = this.#provider
    if (!provider) return
    this.#queue.work(KIND, { concurrency: 4, leaseSeconds: 60, retryDelays: RETRY_DELAYS }, async ({ payload }) => {
      await provider.purge((payload as { urls: string[] }).urls)
    })
  }

  readonly one = (url: string): readonly Sql[] => (this.#provider ? [this.#queue.push(KIND, { urls: [url] })] : [])

  readonly bucket = (bucket: string, baseUrl: string): readonly Sql[] =>
    this.#provider ? [this.#queue.pushEach(KIND, urlsOfBucket(bucket, baseUrl))] : []

  readonly wake = (): void => {
    if (this.#provider) this.#queue.wake(KIND)
  }
}
