import type pg from 'pg'
import { sleep } from '../../core/clock.ts'
import { reasonOf } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'
import { databaseMessage } from '../pg-errors.ts'
import { openConnection } from './connect.ts'

type Listener = { heard: (payload: string) => void; reconnected: (() => void) | undefined }

const PING_EVERY_MS = 1_000
/** Silence is counted in looks, each a turn of the event loop: while this process stood still it could hear no answer. */
const LOOK_EVERY_MS = 250
/** /health turns after this many without an answer. */
const UNREACHABLE_LOOKS = 10
/** Flights are given up after this many: PostgreSQL hangs, or the network swallows packets. */
const HUNG_LOOKS = 32
const MAX_BACKOFF_MS = 500

/**
 * The server's own connection, outside the pool: it LISTENs, and its pings tell whether the database is there, so
 * that /health costs no query and stays honest while the pool is busy.
 */
export class Monitor {
  readonly #url: string
  readonly #observe: Observe
  readonly #onChange: (state: 'ok' | 'unreachable' | 'hung') => void
  readonly #listeners = new Map<string, Set<Listener>>()
  #client: pg.Client | undefined
  #state: 'ok' | 'unreachable' = 'unreachable'
  #stopped = false
  #timer: NodeJS.Timeout | undefined

  constructor(url: string, observe: Observe, onChange: (state: 'ok' | 'unreachable' | 'hung') => void) {
    this.#url = url
    this.#observe = observe
    this.#onChange = onChange
  }

  get state(): 'ok' | 'unreachable' {
    return this.#state
  }

  /** The first connection must succeed; later ones are retried for ever. */
  async start(): Promise<void> {
    await this.#connect()
  }

  async listen(channel: string, heard: Listener['heard'], reconnected?: Listener['reconnected']) {
    const listener: Listener = { heard, reconnected }
    const known = this.#listeners.get(channel) ?? new Set()
    this.#listeners.set(channel, known.add(listener))
    if (known.size === 1) await this.#client?.query(`listen "${channel}"`)
    return async () => {
      known.delete(listener)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#client?.end().catch(() => {})
  }

  async #connect(): Promise<void> {
    const client = await openConnection({ url: this.#url, applicationName: 'savanna listener' })
    client.on('notification', ({ channel, payload }) => {
      for (const { heard } of this.#listeners.get(channel) ?? []) heard(payload ?? '')
    })
    client.once('end', () => this.#lost(client))
    for (const channel of this.#listeners.keys()) await client.query(`listen "${channel}"`)
    if (this.#stopped) return void client.end().catch(() => {})
    this.#client = client
    this.#setState('ok')
    this.#ping(client)
  }

  #ping(client: pg.Client): void {
    this.#timer = setTimeout(() => {
      let looks = 0
      const silence = setInterval(() => {
        looks++
        if (looks === UNREACHABLE_LOOKS) this.#setState('unreachable')
        if (looks < HUNG_LOOKS) return
        clearInterval(silence)
        this.#onChange('hung')
        destroy(client)
      }, LOOK_EVERY_MS)
      const answered = (): void => {
        clearInterval(silence)
        if (this.#stopped || this.#client !== client) return
        this.#setState('ok')
        this.#ping(client)
      }
      client.query('select 1').then(answered, (error: unknown) => {
        clearInterval(silence)
        // Somebody cancelled it: an answer too. A connection that was lost says so by its end.
        if (databaseMessage(error) !== undefined) answered()
      })
    }, PING_EVERY_MS)
    this.#timer.unref()
  }

  #lost(client: pg.Client): void {
    if (this.#stopped || this.#client !== client) return
    this.#client = undefined
    clearTimeout(this.#timer)
    void this.#reconnect()
  }

  async #reconnect(): Promise<void> {
    for (let backoff = 50; !this.#stopped; backoff = Math.min(backoff * 2, MAX_BACKOFF_MS)) {
      try {
        await this.#connect()
        for (const known of this.#listeners.values()) for (const { reconnected } of known) reconnected?.()
        return
      } catch {
        this.#setState('unreachable')
        await sleep(backoff)
      }
    }
  }

  #setState(state: 'ok' | 'unreachable'): void {
    if (state === this.#state) return
    this.#state = state
    this.#observe(state === 'ok' ? { message: 'database reachable' } : { message: 'database unreachable' })
    try {
      this.#onChange(state)
    } catch (error) {
      this.#observe({ message: 'database state listener failed', attrs: { error: reasonOf(error) } })
    }
  }
}

function destroy(client: pg.Client): void {
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
}
