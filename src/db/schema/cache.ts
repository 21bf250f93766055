import { sleep } from '../../core/clock.ts'
import { AppError, reasonOf, unavailable } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../db.ts'
import { createFingerprint, createIntrospection } from './introspect/introspect.ts'
import type { Schema, SchemaCache } from './snapshot.ts'
import { ensureSchemaTrigger, SCHEMA_CHANNEL } from './trigger.ts'

type SchemaCacheOptions = {
  load: () => Promise<Schema>
  /** A cheap text that changes whenever `load` would answer something else. */
  fingerprint: () => Promise<string>
  listen: Db['listen']
  observe: Observe
  pollMs?: number
}

interface RunningSchemaCache extends SchemaCache {
  /** Loads the first snapshot and follows the database from then on. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** The cache of a server: loaded, and following the database until it is stopped. */
export async function openSchemaCache(options: {
  db: Db
  schemas: readonly string[]
  observe: Observe
}): Promise<RunningSchemaCache & { warnings(): readonly string[] }> {
  const { db, schemas, observe } = options
  const noTrigger = await ensureSchemaTrigger(db)
  const cache = createSchemaCache({
    load: createIntrospection(db, schemas),
    fingerprint: createFingerprint(db, schemas),
    listen: (...channel) => db.listen(...channel),
    observe,
  })
  await cache.start()
  return { ...cache, warnings: () => [...(noTrigger ? [noTrigger] : []), ...cache.read().warnings] }
}

const POLL_MS = 60_000
/** DDL comes in bursts: a migration of many commits is loaded a few times, not once per commit. */
const DEBOUNCE_MS = 50
const MAX_DEBOUNCE_MS = 250
const RETRY_MS = 1_000
/** Checks on a miss are spaced to take about a tenth of one connection's time, within these bounds. */
const MIN_CHECK_GAP_MS = 100
const MAX_CHECK_GAP_MS = 1_000
const CHECK_GAP_FACTOR = 10

export function createSchemaCache(options: SchemaCacheOptions): RunningSchemaCache {
  const { load, fingerprint, observe } = options
  const listeners: ((schema: Schema) => void)[] = []
  let current: { schema: Schema; mark: string } | undefined
  let lastLoadMs = 0
  let nextCheckAt = 0
  let debounce: NodeJS.Timeout | undefined
  let poll: NodeJS.Timeout | undefined
  let unlisten: (() => Promise<void>) | undefined
  let stopped = false

  const read = (): Schema => {
    if (current === undefined) throw unavailable('schema cache not ready')
    return current.schema
  }

  const reload = afterwards(async (): Promise<Schema> => {
    const startedAt = performance.now()
    // Taken before the load: what changes meanwhile makes the next check reload, never the other way round.
    const mark = await fingerprint()
    const schema = await load()
    current = { schema, mark }
    lastLoadMs = performance.now() - startedAt
    observe({
      level: 'debug',
      message: 'schema loaded',
      attrs: { tables: schema.tables.size, ms: Math.round(lastLoadMs) },
    })
    for (const heard of listeners) tell(heard, schema)
    return schema
  })

  function tell(heard: (schema: Schema) => void, schema: Schema): void {
    try {
      heard(schema)
    } catch (error) {
      observe({ level: 'error', message: 'schema listener failed', attrs: { error: reasonOf(error) } })
    }
  }

  const check = async (): Promise<Schema> => {
    const startedAt = performance.now()
    try {
      const mark = await fingerprint()
      if (mark === current?.mark) return read()
    } finally {
      const endedAt = performance.now()
      const gap = (endedAt - startedAt) * CHECK_GAP_FACTOR
      nextCheckAt = endedAt + Math.min(Math.max(gap, MIN_CHECK_GAP_MS), MAX_CHECK_GAP_MS)
    }
    try {
      return await reload()
    } catch (error) {
      // Rather what was true a moment ago than nothing; the reload is tried again soon.
      inBackground(Promise.reject(error))
      return read()
    }
  }
  const refreshIfStale = afterwards(check, () => nextCheckAt - performance.now())

  const reloadSoon = (delayMs = Math.min(Math.max(DEBOUNCE_MS, lastLoadMs), MAX_DEBOUNCE_MS)): void => {
    if (stopped || debounce !== undefined) return
    debounce = setTimeout(() => {
      debounce = undefined
      inBackground(reload())
    }, delayMs)
    debounce.unref()
  }

  const inBackground = (work: Promise<unknown>): void => {
    work.catch((error) => {
      if (stopped) return
      observe({ level: 'warn', message: 'schema reload failed', attrs: { error: reasonOf(error) } })
      reloadSoon(RETRY_MS)
    })
  }

  return {
    read,
    reload,
    refreshIfStale,
    onChange: (heard) => void listeners.push(heard),
    async start() {
      // Listening first: DDL between the load and the LISTEN would go unnoticed.
      unlisten = await options.listen(
        SCHEMA_CHANNEL,
        () => reloadSoon(),
        () => reloadSoon(),
      )
      await reload().catch((error: unknown) => {
        const cause = error instanceof AppError && error.cause ? error.cause : error
        throw new Error(`cannot read the schema of the database: ${reasonOf(cause)}`, { cause: error })
      })
      poll = setInterval(() => inBackground(refreshIfStale()), options.pollMs ?? POLL_MS)
      poll.unref()
    },
    async stop() {
      stopped = true
      clearTimeout(debounce)
      clearInterval(poll)
      await unlisten?.()
    },
  }
}

/**
 * Shares one run among callers, but never one that began before the call: who calls during a run gets the next one,
 * together with everybody else who did. At most one runs and one waits, and it waits `pauseMs` after the last.
 */
function afterwards<T>(run: () => Promise<T>, pauseMs = () => 0): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve()
  let isRunning = false
  let next: Promise<T> | undefined
  const start = async (): Promise<T> => {
    next = undefined
    isRunning = true
    try {
      return await run()
    } finally {
      isRunning = false
    }
  }
  const begin = (): Promise<T> => {
    const mine = start()
    running = mine.catch(() => {})
    return mine
  }
  return () => {
    if (!isRunning && next === undefined && pauseMs() <= 0) return begin()
    next ??= running.then(() => sleep(Math.max(pauseMs(), 0))).then(begin)
    return next
  }
}
