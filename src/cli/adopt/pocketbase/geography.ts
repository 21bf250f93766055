import type pg from 'pg'
import { changeSchema } from '../../../db/setup/migrate.ts'
import { Ident } from '../../../db/sql.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import { withSavepoint } from '../database/savepoint.ts'
import type { Note } from '../plan.ts'
import type { TargetSchema } from './schema.ts'

const quote = (name: string): string => new Ident(name).quoted

/**
 * Where PostGIS is, each point also as a geography beside it, kept by the database, with an index for searches near a place. The
 * column itself stays `{"lon", "lat"}`, which clients and rules know. A point of zeros is none, as in PocketBase. A hidden
 * point has none: callers could read the place there.
 */
export async function addGeography(client: pg.Client, { tables }: TargetSchema, notes: Note[]): Promise<void> {
  const points = tables.flatMap(({ collection, columns }) =>
    columns
      .filter(({ field }) => field?.type === 'geoPoint' && !field.hidden)
      .map(({ name }) => ({ table: collection, name })),
  )
  if (points.length === 0) return
  const { rows } = await client.query<{ schema: string }>(
    `select n.nspname as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'postgis'`,
  )
  const place = rows[0]?.schema
  if (place === undefined) return
  for (const { table, name } of points) {
    const key = `${table.id}/${name}`
    const { rowCount } = await client.query(
      `select from svc.adopted where source = 'pocketbase' and kind = 'geography' and key = $1`,
      [key],
    )
    if (rowCount !== 0) continue
    const made = `${name}_geography`
    const failed = await changeSchema(client, async () => {
      await client.query(`insert into svc.adopted (source, kind, key) values ('pocketbase', 'geography', $1)`, [key])
      await client.query(`grant create on schema public to ${ADOPTED_OWNER}`)
      await client.query(`grant usage on schema ${quote(place)} to ${ADOPTED_OWNER}`)
      await client.query(`set local role ${ADOPTED_OWNER}`)
      const failed = await withSavepoint(client, async () => {
        for (const sql of statementsOf(`public.${quote(table.name)}`, name, made, quote(place))) await client.query(sql)
      })
      await client.query('reset role')
      await client.query(`revoke create on schema public from ${ADOPTED_OWNER}`)
      return failed
    })
    if (failed)
      notes.push({
        level: 'warning',
        what: `${table.name}.${name}`,
        why: `has no geography beside it: ${failed.message}`,
      })
  }
}

function statementsOf(table: string, name: string, made: string, place: string): string[] {
  const part = (key: string): string => `(${quote(name)} ->> '${key}')::double precision`
  return [
    `alter table ${table} add column ${quote(made)} ${place}.geography(Point, 4326) generated always as (case
       when ${part('lon')} between -180 and 180 and ${part('lat')} between -90 and 90 and (${part('lon')} <> 0 or ${part('lat')} <> 0)
       then ${place}.st_setsrid(${place}.st_makepoint(${part('lon')}, ${part('lat')}), 4326)::${place}.geography end) stored`,
    `create index on ${table} using gist (${quote(made)})`,
    `grant select (${quote(made)}) on ${table} to svc_anon, svc_authenticated`,
  ]
}
