import { notFound } from '../../core/errors.ts'
import { ANONYMOUS, databaseSession, type Identity, ON_DATA, SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { databaseMessage } from '../../db/pg-errors.ts'
import { rowImage } from '../../db/schema/row-image.ts'
import { rowJsonb } from '../../db/schema/row-json.ts'
import type { Schema, Table } from '../../db/schema/snapshot.ts'
import { COMMA, join, ROW, type Sql, sql } from '../../db/sql.ts'
import { missingGrants } from './grants.ts'
import { checksFor, groupExpression, type PolicyCommand } from './policy-checks.ts'
import * as q from './sql.ts'

const OPERATIONS: readonly PolicyCommand[] = ['select', 'insert', 'update', 'delete']
const SAMPLE = 20
const USERS = 3
const TIMEOUT_MS = 30_000

type Subject = { label: string; who: Identity }
type SampleRow = { id: string; row: unknown }

/**
 * Who may do what with the first rows of every table: one line per table, identity and operation, for version control.
 * Policies are evaluated on the existing rows, read-only; no operation is executed. Without `named`, the oldest users.
 */
export async function accessMatrix(db: Db, schema: Schema, named?: readonly string[]): Promise<string> {
  const users = named ?? (await oldestUsers(db))
  const subjects: Subject[] = [{ label: 'visitor', who: ANONYMOUS }]
  for (const user of users) subjects.push({ label: user, who: await userNamed(db, user) })
  const lines = [
    `# Who may do what with the first ${SAMPLE} rows of each table, by primary key. Made by \`svc rls snapshot\`.`,
    `# users: ${users.join(', ')}`,
  ]
  for (const key of [...schema.tables.keys()].sort()) {
    const table = schema.tables.get(key)
    if (!table || (table.kind !== 'table' && table.kind !== 'partitioned_table')) continue
    lines.push('', ...(await linesOf(db, schema, table, subjects)))
  }
  return `${lines.join('\n')}\n`
}

/** The users of a snapshot, so that the next one has the same. */
export const usersOf = (snapshot: string): string[] =>
  (/^# users: (.*)$/m.exec(snapshot)?.[1] ?? '').split(', ').filter((name) => name !== '')

async function oldestUsers(db: Db): Promise<string[]> {
  const rows = await db.rows<{ name: string }>(SYSTEM, q.selectOldestUsers(USERS))
  return rows.map(({ name }) => name)
}

async function userNamed(db: Db, name: string): Promise<Identity> {
  const [user] = await db.rows<{ id: string; email: string }>(SYSTEM, q.userNamed(name))
  if (!user) throw notFound(`there is no user ${name}`, 'user_not_found')
  return { kind: 'user', ...user, aal: 'aal1', amr: [], sessionId: '', isAnonymous: false, expiresAt: 0 }
}

async function linesOf(db: Db, schema: Schema, table: Table, subjects: readonly Subject[]): Promise<string[]> {
  const rows = await sampleOf(db, schema, table)
  const lines: string[] = []
  for (const { label, who } of subjects) {
    const { role } = databaseSession(who)
    const { rls, policies } = JSON.parse((await db.fly(SYSTEM, q.policiesFor(table, role))) ?? '{}') as q.RowSecurity
    for (const operation of OPERATIONS) {
      const groups = rls ? checksFor(operation, policies).map(groupExpression) : [sql`true`]
      const missing = missingGrants(table, role, operation, [])
      const may =
        missing.length > 0 ? `lacks ${missing.join(', ')}` : await allowed(db, who, schema, table, rows, groups)
      lines.push(`${table.schema}.${table.name} | ${label} | ${operation} | ${may}`)
    }
  }
  return lines
}

async function sampleOf(db: Db, schema: Schema, table: Table): Promise<SampleRow[]> {
  if (table.primaryKey.length === 0) return []
  const keys = table.primaryKey.map(({ ident }) => sql`${ROW}.${ident}`)
  const texts = keys.map((key) => sql`${key}::text`)
  const text = await db.fly(
    ON_DATA,
    sql`select coalesce(pg_catalog.json_agg(s.*)::text, '[]') from (
      select pg_catalog.concat_ws(',', ${join(texts, COMMA)}) as id, ${rowJsonb(schema, table, 'none', ROW)} as row
      from ${table.ident} as ${ROW} order by ${join(keys, COMMA)} limit ${SAMPLE}::int) as s`,
    { kind: 'slow', timeoutMs: TIMEOUT_MS },
  )
  return JSON.parse(text ?? '[]') as SampleRow[]
}

async function allowed(
  db: Db,
  who: Identity,
  schema: Schema,
  table: Table,
  rows: readonly SampleRow[],
  groups: readonly Sql[],
): Promise<string> {
  const images = JSON.stringify(rows.map(({ row }) => row))
  const holds = join(groups, sql` and `)
  const statement = sql`
    select coalesce(pg_catalog.string_agg(svc_e.svc_n::text, ',' order by svc_e.svc_n), '')
    from pg_catalog.jsonb_array_elements(${images}::jsonb) with ordinality as svc_e(svc_row, svc_n),
      ${rowImage({ schema, table }, sql`svc_e.svc_row`)} where ${holds}`
  try {
    const [, text] = await db.fly(who, [q.readOnly, statement], { kind: 'slow', timeoutMs: TIMEOUT_MS })
    const numbers = (text ?? '').split(',').filter(Boolean).map(Number)
    const ids = numbers.map((n) => rows[n - 1]?.id ?? '')
    return `${ids.length} of ${rows.length}${ids.length > 0 ? `: ${ids.join(' ')}` : ''}`
  } catch (error) {
    const message = databaseMessage(error)
    if (message === undefined) throw error
    return `error: ${message}`
  }
}
