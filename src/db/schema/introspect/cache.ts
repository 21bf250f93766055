import { reasonOf, unavailable } from '../../../core/errors.ts'
import type { ObservedMessage } from '../../../core/observations.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Db, Notifications } from '../../db.ts'
import { clamp, Loop } from '../../loop.ts'
import { databaseRefusal } from '../../pg-errors.ts'
import type { Schema, SchemaCache } from '../snapshot.ts'
import { SCHEMA_CHANNEL } from '../trigger.ts'
import { createFingerprint, createIntrospection, type LoadedSchema } from './introspect.ts'

type FollowedSchemaOptions = {
  /** Reads the fingerprint before the schema, so that a change between the two makes the next check load again. */
  load: () => Promise<LoadedSchema>
  /** A cheap text that changes whenever `load` would return another schema. */
  fingerprint: () => Promise<string>
  listen: Notifications['listen']
  observe: Observe
  pollMs?: number
}

/** Loads the server's schema cache, which follows the database until it is stopped. */
export async function openSchemaCache(options: {
  db: Db & Notifications
  schemas: readonly string[]
  observe: Observe
}): Promise<FollowedSchema> {
  const { db, schemas, observe } = options
  const schema = new FollowedSchema({
    load: createIntrospection(db, schemas),
    fingerprint: createFingerprint(db, schemas),
    listen: (...channel) => db.listen(...channel),
    observe,
  })
  await schema.start()
  return schema
}

const POLL_MS = 60_000
/** DDL comes in bursts: a migration of many commits is loaded a few times, not once per commit. */
const DEBOUNCE_MS = 50
const MAX_DEBOUNCE_MS = 250
/** Checks on a miss are spaced to take about a tenth of one connection's time, within these bounds. */
const MIN_CHECK_GAP_MS = 100
const MAX_CHECK_GAP_MS = 1_000
const CHECK_GAP_FACTOR = 10

export class FollowedSchema implements SchemaCache {
  readonly #options: FollowedSchemaOptions
  readonly #listeners: ((schema: Schema) => void)[] = []
  readonly #loads: Loop
  readonly #checks: Loop
  #current: LoadedSchema | undefined
  #lastLoadMs = 0
  #lastCheckMs = 0
  #unlisten: (() => Promise<void>) | undefined

  constructor(options: FollowedSchemaOptions) {
    this.#options = options
    this.#loads = new Loop({
      step: () => this.#load(),
      everyMs: Number.POSITIVE_INFINITY,
      firstMs: Number.POSITIVE_INFINITY,
      onFailure: (error) => this.#warn('schema reload failed', error),
    })
    const pollMs = options.pollMs ?? POLL_MS
    this.#checks = new Loop({
      step: () => this.#check(),
      everyMs: pollMs,
      firstMs: pollMs,
      gapMs: () => clamp(MIN_CHECK_GAP_MS, this.#lastCheckMs * CHECK_GAP_FACTOR, MAX_CHECK_GAP_MS),
      onFailure: (error) => this.#warn('schema check failed', error),
    })
  }

  /** Loads the first snapshot, then follows the database. */
  async start(): Promise<void> {
    const loadSoon = (): void => this.#loads.pokeIn(clamp(DEBOUNCE_MS, this.#lastLoadMs, MAX_DEBOUNCE_MS))
    // Listen first, so that DDL between the load and the LISTEN is noticed.
    this.#unlisten = await this.#options.listen(SCHEMA_CHANNEL, loadSoon, loadSoon)
    await this.reload().catch((error: unknown) => {
      const reason = databaseRefusal(error) ?? reasonOf(error)
      throw new Error(`cannot read the schema of the database: ${reason}`, { cause: error })
    })
  }

  async stop(): Promise<void> {
    await this.#unlisten?.()
    await Promise.all([this.#checks.stop(), this.#loads.stop()])
  }

  read(): Schema {
    if (this.#current === undefined) throw unavailable('schema cache not ready')
    return this.#current.schema
  }

  async reload(): Promise<Schema> {
    await this.#loads.next()
    return this.read()
  }

  async refreshIfStale(): Promise<Schema> {
    await this.#checks.next()
    return this.read()
  }

  onChange(listener: (schema: Schema) => void): void {
    this.#listeners.push(listener)
  }

  async #load(): Promise<undefined> {
    const startedAt = performance.now()
    const loaded = await this.#options.load()
    this.#current = loaded
    this.#lastLoadMs = performance.now() - startedAt
    const attrs = { tables: loaded.schema.tables.size, ms: Math.round(this.#lastLoadMs) }
    this.#options.observe({ message: 'schema loaded', attrs })
    for (const listener of this.#listeners) {
      try {
        listener(loaded.schema)
      } catch (error) {
        this.#options.observe({ message: 'schema listener failed', attrs: { error: reasonOf(error) } })
      }
    }
  }

  async #check(): Promise<undefined> {
    const startedAt = performance.now()
    const fingerprint = await this.#options.fingerprint()
    this.#lastCheckMs = performance.now() - startedAt
    // If the load fails, the old snapshot stays; the load is retried soon.
    if (fingerprint !== this.#current?.fingerprint) await this.#loads.next().catch(() => {})
  }

  #warn(message: ObservedMessage, error: unknown): void {
    this.#options.observe({ message, attrs: { error: reasonOf(error) } })
  }
}
