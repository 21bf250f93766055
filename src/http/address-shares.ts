import type { Socket } from 'node:net'
import { budgets } from '../core/budgets.ts'
import { AppError, serverBusy } from '../core/errors.ts'
import { KeyedLimit } from '../core/limits.ts'
import type { Call } from './route.ts'
import { addressSubject } from './wire/client-address.ts'
import type { IncomingPace } from './wire/incoming-bodies.ts'

type Options = {
  /** Places in all, for one address, and for the operator when the others are taken. */
  all: number
  share: number
  operator: number
  /** What the client does: its bytes are counted. */
  client: 'sends' | 'reads'
  /** The least average rate of the client: else 408. */
  pace?: IncomingPace
}

type Place = {
  readonly since: number
  /** Bytes in all. */
  moved(): number
  end(error: AppError): void
  release(): void
  /** What had moved at the last tick, and for how many seconds the client has been slow. */
  atTick: number
  slowFor: number
}

const TICK_MS = 1_000

/**
 * Limits work whose duration the client decides. One address may take only a share of the places; when all are taken, the
 * client that has been slower than `budgets.placePace` for longest gives way to the next one. An average would not do: the
 * system takes the first megabytes for a client that reads nothing.
 */
export class AddressShares {
  readonly #options: Options
  readonly #limit: KeyedLimit
  readonly #operators: KeyedLimit
  readonly #places = new Set<Place>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: Options) {
    this.#options = options
    this.#limit = new KeyedLimit({ total: options.all, perKey: options.share })
    this.#operators = new KeyedLimit({ perKey: options.operator })
  }

  /** The signal fires, with the error as its reason, when the client has to give way or is too slow. */
  async run<T>(call: Pick<Call, 'ip' | 'who' | 'raw'>, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const release = this.#acquire(call)
    if (!release) throw serverBusy()
    const controller = new AbortController()
    const { socket } = call.raw.request
    const before = this.#bytesOf(socket)
    const place: Place = {
      since: performance.now(),
      moved: () => this.#bytesOf(socket) - before,
      end: (error) => controller.abort(error),
      release,
      atTick: 0,
      slowFor: 0,
    }
    this.#places.add(place)
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref()
    try {
      return await work(controller.signal)
    } finally {
      release()
      this.#places.delete(place)
    }
  }

  #acquire({ ip, who }: Pick<Call, 'ip' | 'who'>): (() => void) | undefined {
    const address = addressSubject(ip)
    const free = this.#limit.tryAcquire(address) ?? (who.kind === 'admin' ? this.#operators.tryAcquire('') : undefined)
    if (free || (this.#limit.counts.get(address) ?? 0) >= this.#options.share) return free
    this.#makeRoom()
    return this.#limit.tryAcquire(address)
  }

  /** The place is free at once; its work ends soon. */
  #makeRoom(): void {
    let slowest: Place | undefined
    for (const place of this.#places) if (place.slowFor > (slowest?.slowFor ?? 0)) slowest = place
    if (!slowest || slowest.slowFor < budgets.placePace.seconds) return
    this.#places.delete(slowest)
    slowest.release()
    slowest.end(serverBusy())
  }

  #tick(): void {
    if (this.#places.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    const { pace } = this.#options
    const now = performance.now()
    for (const place of this.#places) {
      const moved = place.moved()
      place.slowFor = moved - place.atTick < budgets.placePace.bytesPerSecond ? place.slowFor + 1 : 0
      place.atTick = moved
      const expected = pace ? ((now - place.since - pace.graceMs) / 1000) * pace.bytesPerSecond : 0
      if (moved < expected) place.end(new AppError('request_timeout', 'request timeout'))
    }
  }

  #bytesOf(socket: Socket): number {
    return this.#options.client === 'sends' ? socket.bytesRead : socket.bytesWritten - socket.writableLength
  }
}
