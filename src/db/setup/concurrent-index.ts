import type pg from 'pg'
import { AppError, badRequest, notFound, serverBusy } from '../../core/errors.ts'
import { Semaphore } from '../../core/limits.ts'
import { fromPg, type PgError } from '../pg-errors.ts'
import type { Pool } from '../pool/pool.ts'
import { Ident, type Sql, sql } from '../sql.ts'

export type NewIndex = {
  table: { readonly schema: string; readonly ident: Ident; readonly oid: number }
  name: string
  /** The rest of CREATE INDEX after the table's name, such as `using gin (…)`. */
  using: Sql
  /** Whether an existing index of that name is the same: a condition over `i`, a row of pg_index. */
  isSame: Sql
}

/** First half of the advisory lock of a build; the second half is the table. */
const LOCK_SPACE = 0x53_56_43_69
/** An index of a large table takes hours; the build outlives its request. */
const TIMEOUT_MS = 24 * 3_600_000
/** Builds of this process at a time: each takes a connection and maintenance_work_mem. */
const MAX_AT_ONCE = 2
const MAX_NAME_BYTES = 63
const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_$]{0,62}$/

const inProgress = (): AppError => new AppError('in_progress', 'index build already in progress')
const alreadyExists = (name: string): AppError => new AppError('already_exists', `relation "${name}" already exists`)

/** The requested name, or one made of `parts`, the longest of which are cut to PostgreSQL's limit. */
export function indexName(requested: string | undefined, parts: readonly string[]): string {
  if (requested !== undefined && requested !== '') {
    if (!IDENTIFIER.test(requested)) throw badRequest(`invalid identifier: ${requested.slice(0, 100)}`)
    return requested
  }
  const cut = ['idx', ...parts]
  while (Buffer.byteLength(cut.join('_')) > MAX_NAME_BYTES) {
    const sizes = cut.map((part) => Buffer.byteLength(part))
    const longest = sizes.indexOf(Math.max(...sizes))
    cut[longest] = [...(cut[longest] ?? '')].slice(0, -1).join('')
  }
  return cut.join('_')
}

/**
 * Builds indexes CONCURRENTLY, without blocking writers. That is not possible in a transaction, so a failure leaves an
 * invalid index. One build per table at a time over all processes. A build continues when its client disconnects.
 */
export class ConcurrentIndexes {
  readonly #db: Pick<Pool, 'openConnection'>
  readonly #builds = new Semaphore(MAX_AT_ONCE)
  readonly #open = new Set<pg.Client>()

  constructor(db: Pick<Pool, 'openConnection'>) {
    this.#db = db
  }

  /** Resolves when the index exists and is valid, also if another process built it. */
  async build(spec: NewIndex): Promise<void> {
    const { table, name, using } = spec
    await this.#connected(async (client) => {
      const run = (statement: Sql) => query(client, statement)
      if ((await this.#stateOf(client, spec)) === 'valid') return
      const [lock] = await run(
        sql`select pg_catalog.pg_try_advisory_lock(${LOCK_SPACE}, ${table.oid}::oid::int) as mine`,
      )
      if (lock?.['mine'] !== 't') throw inProgress()
      const state = await this.#stateOf(client, spec)
      if (state === 'valid') return
      if (state === 'building') throw inProgress()
      const index = new Ident(table.schema, name)
      if (state === 'invalid') await run(sql`drop index concurrently if exists ${index}`)
      try {
        await run(sql`create index concurrently if not exists ${new Ident(name)} on ${table.ident} ${using}`)
      } catch (error) {
        if ((await this.#stateOf(client, spec)) === 'invalid') {
          await run(sql`drop index concurrently if exists ${index}`)
        }
        throw explained(error)
      }
    })
  }

  /** `name` as in the catalogue. */
  async drop(schema: string, name: string): Promise<void> {
    await this.#connected(async (client) => {
      const [lock] = await query(
        client,
        sql`select pg_catalog.pg_try_advisory_lock(${LOCK_SPACE}, i.indrelid::int) as mine
          from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
          join pg_catalog.pg_namespace n on n.oid = c.relnamespace
          where n.nspname = ${schema} and c.relname = ${name}`,
      )
      if (!lock) throw notFound('index not found', 'index_not_found')
      if (lock['mine'] !== 't') throw inProgress()
      await query(client, sql`drop index concurrently if exists ${new Ident(schema, name)}`)
    })
  }

  /** PostgreSQL may finish a running build or leave it invalid; the next build drops an invalid index. */
  async stop(): Promise<void> {
    await Promise.all([...this.#open].map((client) => client.end().catch(() => undefined)))
  }

  async #connected(work: (client: pg.Client) => Promise<void>): Promise<void> {
    if (this.#builds.isFull) throw serverBusy()
    await this.#builds.run(() => this.#onConnection(work))
  }

  async #onConnection(work: (client: pg.Client) => Promise<void>): Promise<void> {
    const client = await this.#db.openConnection()
    this.#open.add(client)
    try {
      await query(
        client,
        sql`select pg_catalog.set_config('statement_timeout', ${String(TIMEOUT_MS)}, false),
          pg_catalog.set_config('lock_timeout', '0', false), pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)`,
      )
      await work(client)
    } catch (error) {
      throw fromPg(error)
    } finally {
      this.#open.delete(client)
      await client.end().catch(() => undefined)
    }
  }

  async #stateOf(
    client: pg.Client,
    { table, name, isSame }: NewIndex,
  ): Promise<'valid' | 'building' | 'invalid' | undefined> {
    const [found] = await query(
      client,
      sql`select i.indisvalid as valid, i.indrelid = ${table.oid}::oid as ours,
          (${isSame}) as same,
          exists (select from pg_catalog.pg_stat_progress_create_index p where p.index_relid = c.oid) as building
        from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        left join pg_catalog.pg_index i on i.indexrelid = c.oid
        where n.nspname = ${table.schema} and c.relname = ${name}`,
    )
    if (!found) return undefined
    if (found['ours'] !== 't') throw alreadyExists(name)
    if (found['valid'] === 't') {
      if (found['same'] !== 't') throw alreadyExists(name)
      return 'valid'
    }
    return found['building'] === 't' ? 'building' : 'invalid'
  }
}

async function query(client: pg.Client, statement: Sql): Promise<Record<string, string | null>[]> {
  const { text, values } = statement.render()
  return (await client.query(text, [...values])).rows
}

/** Refusals whose message the client gets: too many dimensions, a view, a missing operator class. */
const REFUSED = /^(22|54|0A)|^(42809|42704|42P17|42883)$/

function explained(error: unknown): unknown {
  const { code = '', severity, message } = error as PgError
  return severity !== undefined && REFUSED.test(code) ? badRequest(message, 'sql_error') : error
}
