import type pg from 'pg'
import { sleep } from '../../core/clock.ts'
import type { Observe } from '../../core/observe.ts'
import { databaseMessage } from '../pg-errors.ts'
import { destroy } from '../protocol/driver.ts'
import type { Primary } from './primary.ts'
import {
  FIRST_BACKOFF_MS,
  HUNG_REPLICA_TICKS,
  HUNG_TICKS,
  LOOK_AGAIN_MS,
  PING_EVERY_MS,
  SILENCE_TICK_MS,
  SUPERSEDED_EVERY_MS,
  UNREACHABLE_TICKS,
} from './tuning.ts'

/**
 * Reported with each answer, and when none comes. `hung`: none came for so long that flights are given up, or the server is
 * no longer the primary.
 */
export type MonitorState = 'ok' | 'unreachable' | 'hung'

type Listener = { onNotify: (payload: string) => void; onReconnect: (() => void) | undefined }

/**
 * The server's own connection, outside the pool: it LISTENs, and its pings tell whether the database is there, so
 * that /health costs no query and stays honest while the pool is busy.
 */
export class Monitor {
  readonly #primary: Primary
  readonly #isReplica: boolean
  readonly #observe: Observe
  readonly #onState: (state: MonitorState) => void
  readonly #listeners = new Map<string, Set<Listener>>()
  #client: pg.Client | undefined
  #timeline = 0
  #comparedAt = 0
  #state: 'ok' | 'unreachable' = 'unreachable'
  #stopped = false
  #timer: NodeJS.Timeout | undefined

  constructor(primary: Primary, observe: Observe, onState: (state: MonitorState) => void, isReplica = false) {
    this.#primary = primary
    this.#isReplica = isReplica
    this.#observe = observe
    this.#onState = onState
  }

  get state(): 'ok' | 'unreachable' {
    return this.#state
  }

  /** Of the primary; 0 until one was found. */
  get timeline(): number {
    return this.#timeline
  }

  /** A write was refused as on a standby: if the server is one now, another is looked for. */
  doubt(): void {
    const client = this.#client
    if (!client || !this.#primary.mustWrite) return
    client.query<{ standby: string }>('select pg_catalog.pg_is_in_recovery() as standby').then(
      ({ rows }) => rows[0]?.standby === 't' && this.#giveUp(client),
      () => {}, // a connection that was lost says so by its end
    )
  }

  /** The first connection must succeed; later ones are retried for ever. */
  async start(): Promise<void> {
    await this.#connect()
  }

  async listen(channel: string, onNotify: Listener['onNotify'], onReconnect?: Listener['onReconnect']) {
    const listener: Listener = { onNotify, onReconnect }
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
    const { client, timeline } = await this.#primary.find('savanna listener')
    try {
      // Before anything is written there.
      if (!this.#isReplica) await client.query('select svc.note_timeline($1)', [timeline]).catch(unlessDenied)
    } catch (error) {
      destroy(client)
      throw error
    }
    if (timeline !== this.#timeline && this.#timeline !== 0) {
      this.#observe({ message: 'database primary changed', attrs: { timeline } })
    }
    this.#timeline = timeline
    client.on('notification', ({ channel, payload }) => {
      for (const { onNotify } of this.#listeners.get(channel) ?? []) onNotify(payload ?? '')
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
      let ticks = 0
      const silence = setInterval(() => {
        ticks++
        if (ticks === UNREACHABLE_TICKS) this.#setState('unreachable')
        if (ticks < (this.#isReplica ? HUNG_REPLICA_TICKS : HUNG_TICKS)) return
        clearInterval(silence)
        this.#giveUp(client)
      }, SILENCE_TICK_MS)
      const answered = (): void => {
        clearInterval(silence)
        if (this.#stopped || this.#client !== client) return
        this.#setState('ok')
        this.#compare(client)
        this.#ping(client)
      }
      client.query('select 1').then(answered, (error: unknown) => {
        clearInterval(silence)
        // It was cancelled: an answer too. A connection that was lost says so by its end.
        if (databaseMessage(error) !== undefined) answered()
      })
    }, PING_EVERY_MS)
    this.#timer.unref()
  }

  /** What still answers may have been replaced: writes on it would be lost. */
  #compare(client: pg.Client): void {
    const now = performance.now()
    if (!this.#primary.hasOthers || now - this.#comparedAt < SUPERSEDED_EVERY_MS) return
    this.#comparedAt = now
    void this.#primary.isSuperseded(this.#timeline).then((is) => is && this.#giveUp(client))
  }

  #giveUp(client: pg.Client): void {
    if (this.#stopped || this.#client !== client) return
    this.#onState('hung')
    destroy(client)
  }

  #lost(client: pg.Client): void {
    if (this.#stopped || this.#client !== client) return
    this.#client = undefined
    clearTimeout(this.#timer)
    void this.#reconnect()
  }

  async #reconnect(): Promise<void> {
    for (let backoff = FIRST_BACKOFF_MS; !this.#stopped; backoff = Math.min(backoff * 2, LOOK_AGAIN_MS)) {
      try {
        await this.#connect()
        for (const known of this.#listeners.values()) for (const { onReconnect } of known) onReconnect?.()
        return
      } catch {
        this.#setState('unreachable')
        await sleep(backoff)
      }
    }
  }

  #setState(state: 'ok' | 'unreachable'): void {
    if (state !== this.#state) this.#observe(OBSERVED[state])
    this.#state = state
    this.#onState(state)
  }
}

const OBSERVED = {
  ok: { message: 'database reachable' },
  unreachable: { message: 'database unreachable' },
} as const

/** A role that does not own the schema leaves it to the server that does. */
function unlessDenied(error: unknown): void {
  if ((error as { code?: unknown }).code !== '42501') throw error
}
