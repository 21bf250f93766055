import type pg from 'pg'
import { badRequest } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import { sql } from '../sql.ts'
import { executeSingle, keptBy, type ScriptResult } from './execute.ts'
import { splitScript, untriable } from './split.ts'
import { type WrittenResult, withJson } from './written-result.ts'

export type TriedScript = {
  readonly results: readonly WrittenResult[]
  /** The members that say what would have changed, as JSON text. */
  readonly told: string
}

const MOST_CHANGES = 10_000
const MOST_BYTES = 8 * 1024 * 1024

const CHANGES = `
  select pg_catalog.json_build_object('table', svc.table_label(schema_name, table_name), 'action', action, 'key', key,
    'changes', svc.image_changes(action, old_record, record, null))::text as text
  from svc.dry_run_changes($4::text, $1::pg_catalog.int8, $2::pg_catalog.int4, $3::pg_catalog.int8) order by id`

/** What a dry run on the login of callers needs of the server. */
export type CallerTrial = {
  /** Of the change log. */
  readonly key: string
  /** Names of functions whose work a rollback does not undo. */
  readonly outside: () => Promise<readonly string[]>
}

/**
 * Runs a script and rolls it back. Its transaction holds a row whose deferred trigger refuses every commit, and statements
 * are sent one by one, so that one which ends the transaction is noticed before the next.
 */
export async function tryScript(
  client: pg.Client,
  script: string,
  keepsAll: boolean,
  caller?: CallerTrial,
): Promise<TriedScript> {
  const statements = splitScript(script)
  for (const statement of statements) {
    const reason = untriable(statement)
    if (reason !== undefined) throw badRequest(reason, 'sql_error')
  }
  refuseOutside(script, await (caller ? caller.outside() : outsideFunctions(client)))
  const key = caller?.key ?? (await client.query<{ key: string }>('select key from svc.log_key')).rows[0]?.key
  await client.query('begin')
  const begun = await client.query<{ xid: string; since: string }>(
    'select pg_catalog.pg_current_xact_id()::text as xid, svc.hold_dry_run($1)::text as since',
    [key],
  )
  const { xid, since } = begun.rows[0] ?? { xid: '', since: '0' }
  let results: ScriptResult[] = []
  for (const { text } of statements) {
    const result = await executeSingle(client, text, keepsAll ? keptBy(results) : undefined)
    results = keepsAll ? [...results, result] : [result]
    const now = await client.query<{ xid: string }>('select pg_catalog.pg_current_xact_id()::text as xid')
    if (now.rows[0]?.xid !== xid) throw badRequest('transaction control is not possible in a dry run', 'sql_error')
  }
  const written = await withJson(client, results)
  // Of callers these would lead to their login, which may do nothing.
  if (!caller) await client.query('reset session authorization; reset role')
  await client.query('select svc.check_deferred()')
  const { rows } = await client.query<{ text: string }>(CHANGES, [since, MOST_CHANGES + 1, MOST_BYTES, key])
  await client.query('rollback')
  const isCut = rows.length > MOST_CHANGES
  const texts = rows.slice(0, MOST_CHANGES).map(({ text }) => text)
  return { results: written, told: `"changes":[${texts.join(',')}]${isCut ? ',"truncated":true' : ''}` }
}

/** As the server's own work, which alone may read them. */
export const outsideFunctionNames = async (db: Pick<Db, 'rows'>): Promise<string[]> =>
  (await db.rows<{ name: string }>(SYSTEM, sql`select distinct name from svc.outside_functions`)).map(
    ({ name }) => name,
  )

const outsideFunctions = async (client: pg.Client): Promise<string[]> =>
  (await client.query<{ name: string }>('select distinct name from svc.outside_functions')).rows.map(({ name }) => name)

/** What a function does outside is not rolled back. One that others call by another name is not noticed. */
function refuseOutside(script: string, names: readonly string[]): void {
  const called = new Set([...script.matchAll(/([\w$]+)"?\s*\(/g)].map(([, name = '']) => name.toLowerCase()))
  const outside = names.find((name) => called.has(name.toLowerCase()))
  if (outside !== undefined) throw badRequest(`a dry run cannot undo what ${outside}() does`, 'sql_error')
}
