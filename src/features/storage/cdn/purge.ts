import { AppError } from '../../../core/errors.ts'
import type { JobHandler } from '../../../core/job.ts'
import { GiveUp, type Queue, RetryIn } from '../../../db/queue/queue.ts'
import type { Sql } from '../../../db/sql.ts'
import type { Allowance } from '../../../http/rate-limit.ts'
import type { CdnProvider } from './provider.ts'
import { submitPurge, urlsOf } from './purge-request.ts'

const KIND = 'cdn.purge'
const RETRY_DELAYS = [5, 30, 120, 600, 3_600]

/** Purges after an overwrite or delete, queued in the same transaction so that they happen if and only if it commits. */
export class Purges {
  readonly #provider: CdnProvider | undefined
  readonly #queue: Queue

  constructor(provider: CdnProvider | undefined, queue: Queue) {
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

  /** `batches`: a query with rows {urls}. */
  readonly each = (batches: Sql): readonly Sql[] => (this.#provider ? [this.#queue.pushEach(KIND, batches)] : [])

  readonly wake = (): void => {
    if (this.#provider) this.#queue.wake(KIND)
  }
}

/** The job type `cdn_purge`, with the payload of the endpoint and its limit on purging everything. */
export const purgeJob =
  (provider: CdnProvider | undefined, countPurgeAll: (by: string) => Promise<Allowance | undefined>): JobHandler =>
  async ({ payload, log }) => {
    const urls = parsedPayload(payload)
    const allowance = urls === 'all' ? await countPurgeAll('jobs') : undefined
    if (allowance && !allowance.allowed) throw new RetryIn(allowance.retryAfter, 'cdn purge_all rate limit exceeded')
    await submitPurge(urls, provider)
    log(`${urls === 'all' ? 'purge_all' : `${urls.length} urls`}: ${provider?.name ?? 'noop'}`)
  }

function parsedPayload(payload: unknown): ReturnType<typeof urlsOf> {
  try {
    return urlsOf(payload)
  } catch (error) {
    throw error instanceof AppError ? new GiveUp(error.message) : error
  }
}
