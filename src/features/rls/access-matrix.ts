import { ANONYMOUS, databaseSession, type Identity, SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import type { Schema, Table } from '../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { missingGrants } from './grants.ts'
import { checksFor, groupExpression, type PolicyCommand, rowSecurityFor } from './policy-checks.ts'
import { allowedRows, type SampleRow, sampleOf, sampleUser } from './sample.ts'
import * as q from './sql.ts'

const OPERATIONS: readonly PolicyCommand[] = ['select', 'insert', 'update', 'delete']
const SAMPLE = 20
const USERS = 3

type Subject = { label: string; who: Identity }

/**
 * Who may do what with the first rows of every table: one line per table, identity and operation, for version control.
 * Policies are evaluated on the existing rows, read-only; no operation is executed. Without `named`, the oldest users.
 */
export async function accessMatrix(db: Db, schema: Schema, named?: readonly string[]): Promise<string> {
  const users = named ?? (await oldestUsers(db))
  const subjects: Subject[] = [{ label: 'visitor', who: ANONYMOUS }]
  for (const user of users) subjects.push({ label: user, who: await sampleUser(db, user) })
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

async function linesOf(db: Db, schema: Schema, table: Table, subjects: readonly Subject[]): Promise<string[]> {
  const rows = await sampleOf(db, schema, table, SAMPLE)
  const lines: string[] = []
  for (const { label, who } of subjects) {
    const { role } = databaseSession(who)
    const { rls, policies } = await rowSecurityFor(db, table, role)
    for (const operation of OPERATIONS) {
      const groups = rls ? checksFor(operation, policies).map(groupExpression) : [sql`true`]
      const missing = missingGrants(table, role, operation, [])
      const may =
        missing.length > 0 ? `lacks ${missing.join(', ')}` : await allowed(db, who, { schema, table }, rows, groups)
      lines.push(`${table.schema}.${table.name} | ${label} | ${operation} | ${may}`)
    }
  }
  return lines
}

async function allowed(
  db: Db,
  who: Identity,
  target: { schema: Schema; table: Table },
  rows: readonly SampleRow[],
  groups: readonly Sql[],
): Promise<string> {
  const outcome = await allowedRows(db, who, target, rows, groups)
  if ('error' in outcome) return `error: ${outcome.error}`
  const ids = outcome.map((place) => rows[place]?.id ?? '')
  return `${ids.length} of ${rows.length}${ids.length > 0 ? `: ${ids.join(' ')}` : ''}`
}
