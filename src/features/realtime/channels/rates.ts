import { AppError } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { takeMessages } from './sql.ts'

const SECOND_MS = 1_000
const MAX_KNOWN = 10_000

/** `isWhole`: there is no more of it to be had until it ends. */
type Window = { left: number; until: number; isWhole: boolean }

const now = (): number => performance.now()
const refusal = (message: string): AppError =>
  new AppError('rate_limited', message, { headers: { 'Retry-After': '1' } })

/** Removes what is over, once there are many. */
function forget(windows: Map<string, Window>): void {
  if (windows.size < MAX_KNOWN) return
  for (const [key, { until }] of windows) if (until <= now()) windows.delete(key)
}

/**
 * Messages of a caller in a second. While there is one process it counts by itself; among several each takes a few at a
 * time from a counter in the database, so that together they never let more pass.
 */
export class MessageRate {
  readonly #db: Db
  readonly #max: number
  readonly #isShared: () => boolean
  readonly #windows = new Map<string, Window>()

  constructor(db: Db, max: number, isShared: () => boolean) {
    this.#db = db
    this.#max = max
    this.#isShared = isShared
  }

  async take(payer: string): Promise<void> {
    const known = this.#windows.get(payer)
    let window = known && known.until > now() ? known : undefined
    if (!window && !this.#isShared()) window = { left: this.#max, until: now() + SECOND_MS, isWhole: true }
    if (!window || (window.left <= 0 && !window.isWhole)) window = await this.#lease(payer)
    forget(this.#windows)
    this.#windows.set(payer, window)
    if (window.left <= 0) throw refusal('too many messages')
    window.left--
  }

  async #lease(payer: string): Promise<Window> {
    const wanted = Math.ceil(this.#max / 10)
    const text = await this.#db.fly(SYSTEM, takeMessages(`channels:${payer}`, wanted, this.#max))
    const { taken, ms } = JSON.parse(text ?? '{}') as { taken: number; ms: number }
    // Another connection of the same caller may have taken some meanwhile.
    const known = this.#windows.get(payer)
    const left = known && known.until > now() ? known.left : 0
    return { left: left + taken, until: now() + ms, isWhole: taken < wanted }
  }
}

/** Bytes times receivers of a channel in a second. */
export class ChannelTraffic {
  readonly #max: number
  readonly #windows = new Map<string, Window>()

  constructor(max: number) {
    this.#max = max
  }

  /** Throws when the channel has carried too much. */
  spend(channel: string, bytes: number, receivers: number): void {
    const window = this.#windowOf(channel)
    if (bytes * receivers > window.left) throw refusal('channel carries too much')
    window.left -= bytes * receivers
  }

  /** As `spend`, for what another process let pass. */
  note(channel: string, bytes: number, receivers: number): void {
    this.#windowOf(channel).left -= bytes * receivers
  }

  #windowOf(channel: string): Window {
    const known = this.#windows.get(channel)
    if (known && known.until > now()) return known
    forget(this.#windows)
    const window = { left: this.#max, until: now() + SECOND_MS, isWhole: true }
    this.#windows.set(channel, window)
    return window
  }
}

/** At most so many in a second, for one place. */
export class Pace {
  #window: Window = { left: 0, until: 0, isWhole: true }
  readonly #max: number

  constructor(max: number) {
    this.#max = max
  }

  take(): void {
    if (this.#window.until <= now()) this.#window = { left: this.#max, until: now() + SECOND_MS, isWhole: true }
    if (this.#window.left <= 0) throw refusal('too many changes of state')
    this.#window.left--
  }
}

const MAX_HELD = 8 * 2 ** 20

/** Bytes that this process keeps for a caller's places and rights. */
export class HeldBytes {
  readonly #held = new Map<string, number>()

  hold(owner: string, bytes: number): void {
    const held = (this.#held.get(owner) ?? 0) + bytes
    if (bytes > 0 && held > MAX_HELD) throw new AppError('limit_reached', 'too much is kept for this caller')
    if (held > 0) this.#held.set(owner, held)
    else this.#held.delete(owner)
  }
}
