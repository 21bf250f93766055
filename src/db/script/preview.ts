import type pg from 'pg'
import { badRequest } from '../../core/errors.ts'
import { becomeOwner } from '../setup/agent-logins.ts'
import { executeSingle } from './execute.ts'
import { type ScriptStatement, splitScript, untriable } from './split.ts'

export type MigrationPreview = {
  readonly statements: { text: string; ms: number; locks: { table: string; mode: string; blocks: string }[] }[]
  readonly rewritten: { table: string; rows: number }[]
}

/** DDL of tables and what belongs to them. Functions and triggers would be code, and what they do no rollback knows. */
const DDL: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  [
    'create',
    new Set([
      'table',
      'unlogged',
      'index',
      'unique',
      'type',
      'sequence',
      'view',
      'domain',
      'statistics',
      'policy',
      'or',
    ]),
  ],
  ['alter', new Set(['table', 'index', 'type', 'sequence', 'view', 'domain', 'policy'])],
  ['drop', new Set(['table', 'index', 'type', 'sequence', 'view', 'domain', 'statistics', 'policy'])],
  ['comment', new Set(['on'])],
  ['truncate', new Set(['table'])],
])
/** Also where they are words inside a statement. */
const CLOSED = new Set([
  'owner',
  'session_authorization',
  'set_config',
  'program',
  'concurrently',
  'function',
  'procedure',
  'trigger',
  'rule',
  'extension',
])

function requireDdl(statement: ScriptStatement): void {
  const [first = '', second = '', third = ''] = statement.words
  const reason = untriable(statement)
  if (reason !== undefined) throw badRequest(reason, 'sql_error')
  const isKnown =
    DDL.get(first)?.has(second) && (second !== 'or' || (third === 'replace' && statement.words[3] === 'view'))
  const closed = statement.words.find((word) => CLOSED.has(word))
  if (!isKnown)
    throw badRequest('a preview takes DDL of tables, indexes, types, sequences, views and policies alone', 'sql_error')
  if (closed !== undefined) throw badRequest(`${closed} is not possible in a preview`, 'sql_error')
}

const LOCKS = `
  select svc.table_label(n.nspname, c.relname) as table, l.mode from pg_catalog.pg_locks l
  join pg_catalog.pg_class c on c.oid = l.relation join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where l.pid = $1 and l.locktype = 'relation' and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
    and n.nspname not in ('svc', 'pg_catalog', 'pg_toast', 'information_schema') and l.mode <> 'AccessShareLock' order by 1, 2`

const FILES = `
  select c.oid::text as oid, svc.table_label(n.nspname, c.relname) as table, c.relfilenode::text as file, pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) as ident
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any ($1::text[]) and c.relkind in ('r', 'm')`

type Lock = { table: string; mode: string }
type File = { oid: string; table: string; file: string; ident: string }

/**
 * Runs a migration and rolls it back, and says what it locked and rewrote. `watcher` sees the locks from outside, where the
 * statements cannot deceive it.
 */
export async function previewMigration(
  client: pg.Client,
  watcher: pg.Client,
  script: string,
  schemas: readonly string[],
): Promise<MigrationPreview> {
  const statements = splitScript(script)
  if (statements.length === 0) throw badRequest('there is no statement', 'sql_error')
  for (const statement of statements) requireDdl(statement)
  const pid = (client as unknown as { processID: number }).processID
  await client.query('begin')
  await client.query(`set local lock_timeout = '2s'`)
  await client.query(`set local statement_timeout = '5s'`)
  await client.query('insert into svc.dry_run_guard values (1)')
  const { rows: before } = await client.query<File>(FILES, [schemas])
  const { rows: begun } = await client.query<{ xid: string }>('select pg_catalog.pg_current_xact_id()::text as xid')
  await becomeOwner(client, schemas, script)
  const preview: MigrationPreview = { statements: [], rewritten: [] }
  let held = await locksOf(watcher, pid)
  for (const { text } of statements) {
    const started = performance.now()
    await executeSingle(client, text)
    const ms = Math.round((performance.now() - started) * 10) / 10
    const now = await locksOf(watcher, pid)
    const taken = now.filter((lock) => !held.some((old) => old.table === lock.table && old.mode === lock.mode))
    preview.statements.push({
      text: text.slice(0, 500),
      ms,
      locks: taken.map((lock) => ({ ...lock, blocks: BLOCKS.get(lock.mode) ?? 'nothing' })),
    })
    held = now
  }
  await client.query('reset session authorization')
  const { rows: after } = await client.query<File & { xid: string }>(FILES, [schemas])
  const { rows: ended } = await client.query<{ xid: string }>('select pg_catalog.pg_current_xact_id()::text as xid')
  if (ended[0]?.xid !== begun[0]?.xid) throw badRequest('transaction control is not possible in a preview', 'sql_error')
  for (const { oid, table, file, ident } of after) {
    const was = before.find((one) => one.oid === oid)
    if (!was || was.file === file) continue
    const { rows } = await client.query<{ n: string }>(`select pg_catalog.count(*)::text as n from ${ident}`)
    preview.rewritten.push({ table, rows: Number(rows[0]?.n ?? 0) })
  }
  await client.query('rollback')
  return preview
}

const locksOf = async (watcher: pg.Client, pid: number): Promise<Lock[]> =>
  (await watcher.query<Lock>(LOCKS, [pid])).rows

/** What others cannot do meanwhile. */
const BLOCKS: ReadonlyMap<string, string> = new Map([
  ['RowExclusiveLock', 'index builds'],
  ['ShareUpdateExclusiveLock', 'other DDL and vacuum'],
  ['ShareLock', 'writes'],
  ['ShareRowExclusiveLock', 'writes'],
  ['ExclusiveLock', 'writes'],
  ['AccessExclusiveLock', 'reads and writes'],
])
