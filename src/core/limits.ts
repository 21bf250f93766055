import type { CancelSignal } from './cancel-signal.ts'
import { AppError, serverBusy } from './errors.ts'

/** How long a caller waits, and the error it gets after that. */
export type WaitOptions = { signal?: CancelSignal | undefined; timeoutMs?: number; onTimeout?: () => AppError }

/** At most `max` pieces of work at a time; further ones wait in order of arrival. */
export class Semaphore {
  readonly #max: number
  readonly #queue: WaitQueue = []
  #inUse = 0

  constructor(max: number) {
    this.#max = max
  }

  get inUse(): number {
    return this.#inUse
  }

  get waiting(): number {
    return this.#queue.length
  }

  get isFull(): boolean {
    return this.#inUse >= this.#max
  }

  async run<T>(work: () => Promise<T>, wait?: WaitOptions): Promise<T> {
    if (this.isFull) await waitInQueue(this.#queue, wait)
    else this.#inUse++
    try {
      return await work()
    } finally {
      const next = this.#queue.shift()
      if (next) next()
      else this.#inUse--
    }
  }
}

/** At most one piece of work at a time per key. Idle keys take no memory. */
export class KeyedMutex {
  /** Busy keys, each with its waiters. */
  readonly #queues = new Map<string, WaitQueue>()

  async run<T>(key: string, work: () => Promise<T>, wait?: WaitOptions): Promise<T> {
    const queue = this.#queues.get(key)
    if (queue) await waitInQueue(queue, wait)
    else this.#queues.set(key, [])
    try {
      return await work()
    } finally {
      const next = this.#queues.get(key)?.shift()
      if (next) next()
      else this.#queues.delete(key)
    }
  }
}

/** A number of slots, of which one key may take a share. Callers do not wait: without a free slot they are refused. */
export class KeyedLimit {
  readonly #total: number
  readonly #perKey: number
  readonly #counts = new Map<string, number>()
  #taken = 0

  constructor({ total = Number.POSITIVE_INFINITY, perKey }: { total?: number; perKey: number }) {
    this.#total = total
    this.#perKey = perKey
  }

  get taken(): number {
    return this.#taken
  }

  get free(): number {
    return this.#total - this.#taken
  }

  /** Taken slots by key. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  /** Takes a slot and returns the function that frees it; undefined when no slot is left for this key. */
  tryAcquire(key: string): (() => void) | undefined {
    const count = this.#counts.get(key) ?? 0
    if (this.#taken >= this.#total || count >= this.#perKey) return undefined
    this.#counts.set(key, count + 1)
    this.#taken++
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#taken--
      const left = (this.#counts.get(key) ?? 1) - 1
      if (left > 0) this.#counts.set(key, left)
      else this.#counts.delete(key)
    }
  }
}

export type BudgetLimits = { readonly total: number; readonly perKey: number }

/** The bytes of a budget that one request holds. */
export type Reservation = {
  grow(bytes: number): void
  /** From now on it counts as the youngest: its client made progress. */
  renew(): void
  release(): void
}

type HeldBytes = { bytes: number; evict: () => void }
type KeyUsage = { bytes: number; held: Set<HeldBytes> }

/**
 * A shared budget of bytes. A new request is never refused: when a key exceeds its share, its oldest request is evicted;
 * when the total is exceeded, the oldest request of the largest key. Honest requests are short, so the oldest is the slow
 * one.
 */
export class Budget {
  readonly #limits: BudgetLimits
  readonly #holders = new Map<string, KeyUsage>()
  #total = 0

  constructor(limits: BudgetLimits) {
    this.#limits = limits
  }

  get used(): number {
    return this.#total
  }

  reserve(key: string, evict: () => void): Reservation {
    const held: HeldBytes = { bytes: 0, evict }
    return {
      grow: (bytes) => {
        const holder = this.#holders.get(key) ?? { bytes: 0, held: new Set() }
        this.#holders.set(key, holder)
        holder.held.add(held)
        held.bytes += bytes
        holder.bytes += bytes
        this.#total += bytes
        while (holder.bytes > this.#limits.perKey) this.#evictOldest(key, holder)
        while (this.#total > this.#limits.total) this.#evictFromHeaviest()
      },
      renew: () => {
        const holder = this.#holders.get(key)
        if (holder?.held.delete(held)) holder.held.add(held)
      },
      release: () => this.#drop(key, held),
    }
  }

  #evictFromHeaviest(): void {
    const [first] = [...this.#holders].sort(([, a], [, b]) => b.bytes - a.bytes)
    if (first) this.#evictOldest(...first)
  }

  #evictOldest(key: string, holder: KeyUsage): void {
    for (const oldest of holder.held) {
      this.#drop(key, oldest)
      oldest.evict()
      return
    }
  }

  #drop(key: string, held: HeldBytes): void {
    const holder = this.#holders.get(key)
    if (!holder?.held.delete(held)) return
    holder.bytes -= held.bytes
    this.#total -= held.bytes
    if (holder.held.size === 0) this.#holders.delete(key)
  }
}

/** Runs `work` for all items, at most `width` at a time. After a failure no further item starts. */
export async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  // A generator is shared by all loops, and a loop that throws ends it for all.
  const rest = (function* () {
    yield* items
  })()
  const worker = async (): Promise<void> => {
    for (const item of rest) await work(item)
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker))
}

type WaitQueue = (() => void)[]

/** Resolves when it is this caller's turn. A caller that gives up leaves the queue. */
function waitInQueue(queue: WaitQueue, { signal, timeoutMs, onTimeout }: WaitOptions = {}): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(aborted())
    const begin = (): void => {
      stopWaiting()
      resolve()
    }
    const giveUp = (error: AppError): void => {
      stopWaiting()
      queue.splice(queue.indexOf(begin), 1)
      reject(error)
    }
    const cancel = (): void => giveUp(aborted())
    const expire = (): void => giveUp(onTimeout?.() ?? serverBusy())
    const timer = timeoutMs === undefined ? undefined : setTimeout(expire, timeoutMs)
    const stopWaiting = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', cancel)
    }
    signal?.addEventListener('abort', cancel, { once: true })
    queue.push(begin)
  })
}

const aborted = (): AppError => new AppError('request_timeout', 'request was aborted')
