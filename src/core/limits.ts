import type { CancelSignal } from './cancel-signal.ts'
import { AppError, serverBusy } from './errors.ts'

/** How long a caller waits, and what it is told when it has waited too long. */
export type WaitOptions = { signal?: CancelSignal | undefined; timeoutMs?: number; onTimeout?: () => AppError }

/** At most `max` pieces of work at a time; the others wait in the order in which they came. */
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

  async run<T>(work: () => Promise<T>, patience?: WaitOptions): Promise<T> {
    if (this.isFull) await waitInQueue(this.#queue, patience)
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

/** One piece of work at a time for each key. Keys without work take no memory. */
export class KeyedMutex {
  /** Key at work → those that wait for it. */
  readonly #queues = new Map<string, WaitQueue>()

  async run<T>(key: string, work: () => Promise<T>, patience?: WaitOptions): Promise<T> {
    const queue = this.#queues.get(key)
    if (queue) await waitInQueue(queue, patience)
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

/** Places, of which one key may take a part. Nothing waits: a caller that finds no place is refused. */
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

  /** Places taken, by key. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  /** Takes a place, and returns the function that gives it back once; undefined when there is none for this key. */
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

/** What one request holds of a budget. */
export type Reservation = { grow(bytes: number): void; release(): void }

type HeldBytes = { bytes: number; evict: () => void }
type KeyUsage = { bytes: number; held: Set<HeldBytes> }

/**
 * Bytes that callers share. A new request is never refused for what others hold: the oldest request of the key that has
 * too much is evicted, and over all keys that of the key that has most. Honest requests are short, so the oldest is the
 * slow one.
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

/** Runs `work` over all items, at most `width` at a time. After a failure none is begun any more. */
export async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  // A generator, because a loop that throws ends it for the other loops too.
  const rest = (function* () {
    yield* items
  })()
  const worker = async (): Promise<void> => {
    for (const item of rest) await work(item)
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker))
}

type WaitQueue = (() => void)[]

/** Resolves when the work before this one hands its turn on. Giving up leaves the queue. */
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
