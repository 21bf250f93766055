import type pg from 'pg'
import { Ident } from '../../../db/sql.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import type { Note } from '../plan.ts'
import type { Catalogue, SourceTable } from './catalogue.ts'
import { named, type SchemaStep } from './ddl.ts'
import { runSteps } from './run-steps.ts'
import { SAME_TEXTS } from './source.ts'

const quote = (name: string): string => new Ident(name).quoted

/**
 * What rows need, within a transaction. A table that is there with the same columns, such as one that migrations of `--out`
 * made, is taken as it is; one with others is refused.
 */
export async function makeTables(
  client: pg.Client,
  source: Catalogue,
  steps: readonly SchemaStep[],
  notes: Note[],
): Promise<void> {
  const there = new Set<string>()
  await client.query(SAME_TEXTS, [true])
  for (const table of source.tables) {
    const found = await columnsOf(client, table)
    if (found.length === 0) continue
    const wanted = table.columns.map(({ name, type }) => `${name} ${type}`).sort()
    if (found.join() !== wanted.join())
      throw new Error(`there is a table ${table.schema}.${table.name} already, with other columns`)
    there.add(`${table.schema}.${table.name}`)
  }
  for (const { name } of source.schemas) {
    if (name === 'public') await client.query(`grant usage, create on schema public to ${ADOPTED_OWNER}`)
    else await client.query(`create schema if not exists ${quote(name)} authorization ${ADOPTED_OWNER}`)
  }
  // They come back when the rows are there.
  for (const { schema, table, name, type } of source.constraints)
    if (there.has(`${schema}.${table}`) && 'fcx'.includes(type))
      await client.query(`alter table ${named(schema, table)} drop constraint if exists ${quote(name)}`)
  for (const { schema, table, name } of source.triggers)
    if (there.has(`${schema}.${table}`))
      await client.query(`drop trigger if exists ${quote(name)} on ${named(schema, table)}`)
  await runSteps(
    client,
    steps.filter((step) => step.phase === 'before' && !(step.table !== undefined && there.has(step.table))),
    notes,
  )
}

/** What is there already, because migrations of `--out` made it, stays. */
export async function finishTables(client: pg.Client, steps: readonly SchemaStep[], notes: Note[]): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select i.relname as name from pg_catalog.pg_index x join pg_catalog.pg_class i on i.oid = x.indexrelid
     join pg_catalog.pg_class c on c.oid = x.indrelid join pg_catalog.pg_roles r on r.oid = c.relowner and r.rolname = '${ADOPTED_OWNER}'`,
  )
  await client.query(SAME_TEXTS, [true])
  const made = new Set(rows.map(({ name }) => `index ${name}`))
  await runSteps(
    client,
    steps.filter(({ phase, what }) => phase === 'after' && !made.has(what)),
    notes,
  )
  await client.query(`revoke create on schema public from ${ADOPTED_OWNER}`)
}

async function columnsOf(client: pg.Client, { schema, name }: SourceTable): Promise<string[]> {
  const { rows } = await client.query<{ one: string }>(
    `select a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod) as one from pg_catalog.pg_attribute a
     join pg_catalog.pg_class c on c.oid = a.attrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where n.nspname = $1 and c.relname = $2 and a.attnum > 0 and not a.attisdropped`,
    [schema, name],
  )
  return rows.map(({ one }) => one).sort()
}

export const tableExists = async (client: pg.Client, { schema, name }: SourceTable): Promise<boolean> =>
  (await client.query('select where pg_catalog.to_regclass($1) is not null', [named(schema, name)])).rowCount !== 0
