import { notFound } from '../../core/errors.ts'
import { type Identity, ON_DATA, SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { databaseMessage } from '../../db/pg-errors.ts'
import { rowImage } from '../../db/schema/row-image.ts'
import { rowJsonb } from '../../db/schema/row-json.ts'
import type { Schema, Table } from '../../db/schema/snapshot.ts'
import { COMMA, join, ROW, type Sql, sql } from '../../db/sql.ts'
import * as q from './sql.ts'

const TIMEOUT_MS = 30_000
/** Of the rows of a sample, which go to PostgreSQL once for each identity. */
const MOST_BYTES = 4 * 1024 * 1024

export type SampleRow = { id: string; row: unknown }

/** The first rows of a table by primary key, up to a number and a size. */
export async function sampleOf(db: Db, schema: Schema, table: Table, limit: number): Promise<SampleRow[]> {
  if (table.primaryKey.length === 0) return []
  const keys = table.primaryKey.map(({ ident }) => sql`${ROW}.${ident}`)
  const texts = keys.map((key) => sql`${key}::text`)
  const text = await db.fly(
    ON_DATA,
    sql`select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('id', s.id, 'row', s.row) order by s.n)::text, '[]') from (
      select f.*, pg_catalog.sum(pg_catalog.octet_length(f.row::text)) over (order by f.n) as size from (
        select pg_catalog.row_number() over () as n, o.* from (
          select pg_catalog.concat_ws(',', ${join(texts, COMMA)}) as id, ${rowJsonb(schema, table, 'none', ROW)} as row
          from ${table.ident} as ${ROW} order by ${join(keys, COMMA)} limit ${limit}::int) as o) as f) as s
      where s.n = 1 or s.size <= ${MOST_BYTES}::int`,
    { kind: 'slow', timeoutMs: TIMEOUT_MS },
  )
  return JSON.parse(text ?? '[]') as SampleRow[]
}

/** The places of the rows for which all groups hold, or what PostgreSQL says of an expression that raises. */
export async function allowedRows(
  db: Db,
  who: Identity,
  { schema, table }: { schema: Schema; table: Table },
  rows: readonly SampleRow[],
  groups: readonly Sql[],
  timeoutMs = TIMEOUT_MS,
): Promise<readonly number[] | { error: string }> {
  const images = JSON.stringify(rows.map(({ row }) => row))
  const statement = sql`
    select coalesce(pg_catalog.string_agg(svc_e.svc_n::text, ',' order by svc_e.svc_n), '')
    from pg_catalog.jsonb_array_elements(${images}::jsonb) with ordinality as svc_e(svc_row, svc_n),
      ${rowImage({ schema, table }, sql`svc_e.svc_row`)} where ${join(groups, sql` and `)}`
  try {
    const [, text] = await db.fly(who, [q.readOnly, statement], { kind: 'slow', timeoutMs })
    return (text ?? '')
      .split(',')
      .filter(Boolean)
      .map((n) => Number(n) - 1)
  } catch (error) {
    const message = databaseMessage(error)
    if (message === undefined) throw error
    return { error: message }
  }
}

/** By id or address. */
export async function sampleUser(db: Db, name: string): Promise<Identity> {
  const [user] = await db.rows<{ id: string; email: string }>(SYSTEM, q.userNamed(name))
  if (!user) throw notFound(`there is no user ${name}`, 'user_not_found')
  return { kind: 'user', ...user, aal: 'aal1', amr: [], sessionId: '', isAnonymous: false, expiresAt: 0 }
}
