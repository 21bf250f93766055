import type pg from 'pg'
import { badRequest } from '../../core/errors.ts'
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
  from svc.dry_run_changes((select k.key from svc.log_key k), $1::pg_catalog.int8, $2::pg_catalog.int4, $3::pg_catalog.int8) order by id`

/**
 * Runs a script and rolls it back. Its transaction holds a row whose deferred trigger refuses every commit, and statements
 * are sent one by one, so that one which ends the transaction is noticed before the next.
 */
export async function tryScript(client: pg.Client, script: string, keepsAll: boolean): Promise<TriedScript> {
  const statements = splitScript(script)
  for (const statement of statements) {
    const reason = untriable(statement)
    if (reason !== undefined) throw badRequest(reason, 'sql_error')
  }
  await refuseOutside(client, script)
  await client.query('begin')
  await client.query('insert into svc.dry_run_guard values (1)')
  const begun = await client.query<{ xid: string; since: string }>(
    // Of a log without a change `last_value` is the id of the first one.
    'select pg_catalog.pg_current_xact_id()::text as xid, (last_value - (not is_called)::int)::text as since from svc.change_log_id_seq',
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
  await client.query('reset session authorization')
  await client.query('reset role')
  await client.query('select svc.check_deferred()')
  const { rows } = await client.query<{ text: string }>(CHANGES, [since, MOST_CHANGES + 1, MOST_BYTES])
  await client.query('rollback')
  const isCut = rows.length > MOST_CHANGES
  const texts = rows.slice(0, MOST_CHANGES).map(({ text }) => text)
  return { results: written, told: `"changes":[${texts.join(',')}]${isCut ? ',"truncated":true' : ''}` }
}

/** What a function does outside is not rolled back. One that others call by another name is not noticed. */
async function refuseOutside(client: pg.Client, script: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>('select distinct name from svc.outside_functions')
  const called = new Set([...script.matchAll(/([\w$]+)"?\s*\(/g)].map(([, name = '']) => name.toLowerCase()))
  const outside = rows.find(({ name }) => called.has(name.toLowerCase()))
  if (outside) throw badRequest(`a dry run cannot undo what ${outside.name}() does`, 'sql_error')
}
