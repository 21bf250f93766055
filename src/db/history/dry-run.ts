import type { CancelSignal } from '../../core/cancel-signal.ts'
import { AppError } from '../../core/errors.ts'
import { getOrCreate } from '../../core/get-or-create.ts'
import { databaseSession, type Identity } from '../../core/identity.ts'
import { Semaphore } from '../../core/limits.ts'
import type { Db, Tx } from '../db.ts'
import type { PgError } from '../pg-errors.ts'
import { mayDo, tableByOid } from '../schema/lookup.ts'
import type { SchemaCache, Table } from '../schema/snapshot.ts'
import { isAllowed, viewerOf } from '../schema/viewer.ts'
import { type Sql, sql } from '../sql.ts'
import { type ImagePair, type ImageSecurity, judgedChanges, rowSecurity, unnested } from './judged.ts'

/** Each takes a connection of its own. */
const AT_ONCE = 4
const WAIT_MS = 10_000
/** More changes are not listed; `truncated` says so. */
const MOST_CHANGES = 10_000
const MOST_BYTES = 8 * 1024 * 1024

/** A change as svc.dry_run_changes() answers it; images and keys are JSON texts. */
export type LoggedChange = {
  oid: number
  schema: string
  name: string
  action: string
  key: string | null
  old: string | null
  new: string | null
}

type Deps = { db: Db; schema: SchemaCache; key: string }

/** Writes that are made and rolled back, to see what they would do. */
export class DryRuns {
  readonly #deps: Deps
  readonly #atOnce = new Semaphore(AT_ONCE)

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** For one request. */
  start(who: Identity, signal: CancelSignal): DryRun {
    return new DryRun(this.#deps, this.#atOnce, who, signal)
  }

  /** For a transaction of the caller of this, which tells that there are rows that it does not show. */
  watch(who: Identity, signal: CancelSignal): DryRun {
    return new DryRun(this.#deps, this.#atOnce, who, signal, true)
  }
}

/** What a handler needs of a write that is tried. */
export type TriedWrite = Pick<DryRun, 'db' | 'told'>
/** In place of `DryRuns`, for handlers. */
export type TriesWrites = { start(who: Identity, signal: CancelSignal): TriedWrite }

export class DryRun {
  readonly #deps: Deps
  readonly #atOnce: Semaphore
  readonly #who: Identity
  readonly #signal: CancelSignal
  /** The members `changes` and `truncated` of the answer, as JSON text. */
  told = '"changes":[]'
  /** All of it, whoever may see it. */
  logged: readonly LoggedChange[] = []
  isCut = false
  /** Rows that the caller may not see, of tables that it may read, are told as table and action. */
  readonly tellsHidden: boolean

  constructor(deps: Deps, atOnce: Semaphore, who: Identity, signal: CancelSignal, tellsHidden = false) {
    this.tellsHidden = tellsHidden
    this.#deps = deps
    this.#atOnce = atOnce
    this.#who = who
    this.#signal = signal
  }

  /** In place of `db`: each flight is a transaction that is rolled back. */
  readonly db: Pick<Db, 'fly'> = {
    fly: (async (_who: Identity, statements: Sql | readonly Sql[]) => {
      let answer: unknown
      const work = async (tx: Tx): Promise<never> => {
        const since = await this.begin(tx)
        answer = await tx.fly(statements as Sql)
        await this.finish(tx, since)
        throw new RolledBack()
      }
      const run = (): Promise<never> => this.#deps.db.tx(this.#who, work, { apart: true, signal: this.#signal })
      await this.#atOnce.run(run, { signal: this.#signal, timeoutMs: WAIT_MS }).catch(RolledBack.expected)
      return answer
    }) as Db['fly'],
  }

  /** For a transaction that the caller of this rolls back: answers where the log begins. */
  async begin(tx: Tx): Promise<string> {
    return (await tx.fly(sql`select svc.begin_dry_run(${this.#deps.key})::text`)) ?? '0'
  }

  /** Checks what is checked at a commit, and reads what the transaction has logged. */
  async finish(tx: Tx, since: string): Promise<void> {
    await tx.run(sql`set constraints all immediate`).catch((error: unknown) => {
      // None of the caller's statements is to blame.
      if (error instanceof AppError) Object.assign(error.cause as PgError, { statementIndex: undefined })
      throw error
    })
    const { role, userId, email, aal, claims } = databaseSession(this.#who)
    // Code of the operator may have changed them.
    await tx.run(sql`select pg_catalog.set_config('role', ${role}, true), pg_catalog.set_config('svc.user_id', ${userId}, true),
      pg_catalog.set_config('svc.user_email', ${email}, true), pg_catalog.set_config('svc.aal', ${aal}, true),
      pg_catalog.set_config('svc.claims', ${claims}, true),
      pg_catalog.set_config('TimeZone', 'UTC', true), svc.renew_dialect()`)
    const changes = await tx.rows<LoggedChange>(sql`
      select table_oid::pg_catalog.int8::pg_catalog.float8 as oid, schema_name as schema, table_name as name, action, key::text as key,
        old_record::text as old, record::text as new
      from svc.dry_run_changes(${this.#deps.key}, ${since}::pg_catalog.int8, ${MOST_CHANGES + 1}, ${MOST_BYTES})`)
    const listed = changes.slice(0, countListed(changes))
    this.isCut = listed.length < changes.length
    this.logged = listed
    const told = await this.#judge(tx, listed)
    this.told = `"changes":[${told.join(',')}]${this.isCut ? ',"truncated":true' : ''}`
  }

  /** Each change as JSON text, in the order of the log; tables that the caller may not read are one entry at the end. */
  async #judge(tx: Tx, changes: readonly LoggedChange[]): Promise<string[]> {
    const schema = this.#deps.schema.read()
    const viewer = viewerOf(this.#who)
    if (viewer.role === 'none') return wholeChanges(tx, changes)
    const texts: string[] = []
    let hasOthers = false
    for (const [oid, group] of byTable(changes)) {
      const table = tableByOid(schema, oid)
      if (!table || !mayDo(table, viewer.role, 'select') || !isAllowed(schema, table, viewer)) hasOthers = true
      else {
        const last = new Map(group.map(({ i, of }) => [of.key, i]))
        const pairs = group.map(({ i, of }): ImagePair => ({ ...of, n: i, isNow: last.get(of.key) === i }))
        const security = JSON.parse((await tx.fly(rowSecurity(oid, viewer.role))) ?? '{}') as ImageSecurity
        const judged = judgedChanges({ schema, table }, viewer.role, security, pairs)
        for (const { n, text } of await seen(tx, table, judged)) texts[n] = text
        if (this.tellsHidden) for (const { i, of } of group) texts[i] ??= hiddenChange(of)
      }
    }
    return [...texts.filter((text) => text !== undefined), ...(hasOthers ? ['{"other":true}'] : [])]
  }
}

const hiddenChange = ({ schema, name, action }: LoggedChange): string =>
  JSON.stringify({ table: schema === 'public' ? name : `${schema}.${name}`, action })

/** How many changes are within the bounds of number and bytes. */
function countListed(changes: readonly LoggedChange[]): number {
  let bytes = 0
  const at = changes.findIndex(({ old, new: now }, i) => {
    bytes += Buffer.byteLength(old ?? '') + Buffer.byteLength(now ?? '')
    return i >= MOST_CHANGES || bytes > MOST_BYTES
  })
  return at < 0 ? changes.length : at
}

/** A policy that fails on an image shows nothing. */
async function seen(tx: Tx, { schema, name }: Table, judged: Sql): Promise<{ n: number; text: string }[]> {
  await tx.run(sql`savepoint svc_judge`)
  try {
    return await tx.rows<{ n: number; text: string }>(sql`
      select (c ->> 'n')::pg_catalog.int4 as n, (pg_catalog.jsonb_build_object('table', svc.table_label(${schema}, ${name})) || (c - 'n'))::text as text
      from pg_catalog.jsonb_array_elements((${judged})::pg_catalog.jsonb) as c`)
  } catch (error) {
    if (!(error instanceof AppError) || error.status === 503) throw error
    await tx.run(sql`rollback to savepoint svc_judge`)
    return []
  }
}

/** For the admin, who sees everything. */
async function wholeChanges(tx: Tx, changes: readonly LoggedChange[]): Promise<string[]> {
  const texts = <K extends keyof LoggedChange>(field: K) => changes.map((change) => change[field])
  const rows = await tx.rows<{ text: string }>(sql`
    select pg_catalog.json_build_object('table', svc.table_label(i.schema, i.name), 'action', i.action, 'key', i.key,
      'changes', svc.image_changes(i.action, i.old, i.new, null))::text as text
    from ${unnested([
      sql`${texts('schema')}::text[]`,
      sql`${texts('name')}::text[]`,
      sql`${texts('action')}::text[]`,
      sql`${texts('key')}::pg_catalog.jsonb[]`,
      sql`${texts('old')}::pg_catalog.jsonb[]`,
      sql`${texts('new')}::pg_catalog.jsonb[]`,
    ])} with ordinality as i(schema, name, action, key, old, new, n) order by i.n`)
  return rows.map(({ text }) => text)
}

/** With the place of each in the whole. */
function byTable(changes: readonly LoggedChange[]): Map<number, { i: number; of: LoggedChange }[]> {
  const groups = new Map<number, { i: number; of: LoggedChange }[]>()
  for (const [i, of] of changes.entries()) getOrCreate(groups, of.oid, () => []).push({ i, of })
  return groups
}

/** Thrown to roll back. */
class RolledBack extends AppError {
  constructor() {
    super('internal', 'dry run')
  }
  static expected(this: void, error: unknown): void {
    if (!(error instanceof RolledBack)) throw error
  }
}
