import type pg from 'pg'
import type { Config } from '../../../config/config.ts'
import { reasonOf } from '../../../core/errors.ts'
import { changeSchema } from '../../../db/setup/migrate.ts'
import { createStore } from '../../../features/storage/storage.ts'
import { Progress } from '../../files/progress.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import { withSavepoint } from '../database/savepoint.ts'
import { exclusively } from '../exclusive.ts'
import { forgetLater, type Plan } from '../plan.ts'
import { bringPeople, type People } from './accounts.ts'
import { bringFiles, type SourceFile } from './files.ts'
import { addGeography } from './geography.ts'
import { CLOSE_SCHEMA, PRELUDE } from './migrations.ts'
import { bringRows } from './rows.ts'
import { quoted } from './rule-sql.ts'
import type { TargetSchema } from './schema.ts'
import type { Source } from './source.ts'
import type { Statement } from './statements.ts'

export type Brought = { schema: TargetSchema; people: People; files: readonly SourceFile[]; plan: Plan }

export const apply = (config: Config, source: Source, brought: Brought): Promise<Record<string, number>> =>
  exclusively(
    config,
    async () => {},
    (client) => bring(client, config, source, brought),
  )

async function bring(
  client: pg.Client,
  config: Config,
  source: Source,
  brought: Brought,
): Promise<Record<string, number>> {
  const { schema, people, files, plan } = brought
  const tables = await changeSchema(client, () => makeSchema(client, schema))
  const views = await changeSchema(client, () => makeViews(client, schema, plan.notes), forgetLater(plan.notes))
  const users = await bringPeople(client, source, people, plan.notes)
  const named = new Set(schema.tables.map(({ collection }) => collection.name))
  const total = plan.tables.reduce((sum, table) => sum + (named.has(table.name) ? table.rows : 0), 0)
  const tableProgress = new Progress(total, schema.tables.length, 'tables')
  let rows = 0
  for (const table of schema.tables) {
    rows += await bringRows(client, source, table, (count) => tableProgress.add(count))
    tableProgress.fileDone()
  }
  tableProgress.end()
  await addConstraints(client, schema, plan.notes)
  await addGeography(client, schema, plan.notes)
  const progress = new Progress(plan.files.bytes, files.length)
  const store = createStore(config.storage)
  store.start?.()
  const count = await bringFiles(client, store, files, (bytes) => {
    progress.add(bytes)
    progress.fileDone()
  }).finally(() => store.stop())
  progress.end()
  await compareCounts(client, brought)
  return { tables, ...(schema.views.length > 0 && { views }), users, rows, files: count }
}

/** Everything or nothing; what an earlier run made, or migrations of `--out`, stays as it is. */
async function makeSchema(client: pg.Client, schema: TargetSchema): Promise<number> {
  const { rows } = await client.query<{ key: string }>(
    `select key from svc.adopted where source = 'pocketbase' and kind = 'table'`,
  )
  const known = new Set(rows.map(({ key }) => key))
  // Helpers know the auth collections of one app; those of another would lose their callers.
  const other = [...known].find((name) => !schema.tables.some(({ collection }) => collection.name === name))
  if (other !== undefined)
    throw new Error(`another PocketBase was adopted into this database, with a collection ${other}`)
  const missing = schema.tables.filter(({ collection }) => !known.has(collection.name))
  if (missing.length === 0) return 0
  const made = new Set<string>()
  for (const { collection, columns, bucket } of missing) {
    const there = await columnsOf(client, collection.name)
    const wanted = columns.map(({ name, type }) => `${name} ${type}`).sort()
    if (there.length === 0) {
      made.add(collection.name)
      const { rowCount } = await client.query(
        'select from svc.storage_buckets where name = $1 union all select from svc.objects where bucket = $1 limit 1',
        [bucket ?? null],
      )
      if (rowCount !== 0)
        throw new Error(`there is a bucket ${bucket} already, so the files of ${collection.name} have no place`)
    } else if (there.join() !== wanted.join())
      throw new Error(`there is a table public.${collection.name} already, with other columns`)
    await client.query(`insert into svc.adopted (source, kind, key) values ('pocketbase', 'table', $1)`, [
      collection.name,
    ])
  }
  if (made.size === 0) return 0
  for (const sql of PRELUDE) await client.query(sql)
  for (const statement of [...schema.statements, ...schema.access]) {
    if (statement.collection === undefined || made.has(statement.collection)) await run(client, statement)
  }
  await client.query(CLOSE_SCHEMA)
  return made.size
}

/** Each by itself: what PostgreSQL does not take is listed. */
async function makeViews(client: pg.Client, { views }: TargetSchema, notes: Brought['plan']['notes']): Promise<number> {
  const { rows } = await client.query<{ key: string }>(
    `select key from svc.adopted where source = 'pocketbase' and kind = 'view'`,
  )
  const known = new Set(rows.map(({ key }) => key))
  const missing = views.filter(({ name }) => !known.has(name))
  if (missing.length === 0) return 0
  const { rows: versions } = await client.query<{ v: string }>(`select current_setting('server_version_num') as v`)
  if (Number(versions[0]?.v) < 150_000) {
    for (const { name } of missing)
      notes.push({
        level: 'closed',
        what: name,
        why: 'PostgreSQL 14 has no views that read with the rights of who asks',
      })
    return 0
  }
  for (const sql of PRELUDE) await client.query(sql)
  let made = 0
  for (const { name, statements } of missing) {
    if ((await columnsOf(client, name)).length > 0) {
      notes.push({ level: 'skipped', what: name, why: 'there is a table or view of this name already' })
      continue
    }
    const failed = await withSavepoint(client, async () => {
      for (const sql of statements) await run(client, { by: 'owner', collection: name, sql })
      await client.query(`insert into svc.adopted (source, kind, key) values ('pocketbase', 'view', $1)`, [name])
    })
    if (failed)
      notes.push({ level: 'skipped', what: name, why: `its query means something else here: ${reasonOf(failed)}` })
    else made++
  }
  await client.query(CLOSE_SCHEMA)
  return made
}

async function run(client: pg.Client, { by, sql }: Statement): Promise<void> {
  if (by === 'server') {
    await client.query(sql)
    return
  }
  await client.query(`set local role ${ADOPTED_OWNER}`)
  await client.query(sql)
  await client.query('reset role')
}

async function columnsOf(client: pg.Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ one: string }>(
    `select a.attname || ' ' || format_type(a.atttypid, a.atttypmod) as one from pg_attribute a join pg_class c on c.oid = a.attrelid
     join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'public' and c.relname = $1 and a.attnum > 0 and not a.attisdropped`,
    [table],
  )
  return rows.map(({ one }) => one).sort()
}

/** Rows that are older than a rule of theirs stay; the rule holds for what is written from now on. */
async function addConstraints(client: pg.Client, schema: TargetSchema, notes: Brought['plan']['notes']): Promise<void> {
  for (const { collection, name, sql, isIndex } of schema.constraints) {
    const { rowCount } = await client.query(
      `select from svc.adopted where source = 'pocketbase' and kind = 'constraint' and key = $1`,
      [name],
    )
    if (rowCount !== 0) continue
    const refused = await changeSchema(client, async () => {
      await client.query(`insert into svc.adopted (source, kind, key) values ('pocketbase', 'constraint', $1)`, [name])
      const { rowCount: there } = await client.query(
        'select from pg_constraint where conname = $1 union all select from pg_class where relname = $1',
        [name],
      )
      if (there !== 0) return undefined
      // An index is an object of the schema.
      if (isIndex) await client.query(`grant create on schema public to ${ADOPTED_OWNER}`)
      await client.query(`set local role ${ADOPTED_OWNER}`)
      const failed = await withSavepoint(client, () => client.query(sql))
      if (failed && !isIndex) await client.query(`${sql} not valid`)
      await client.query('reset role')
      if (isIndex) await client.query(CLOSE_SCHEMA)
      return failed?.message
    })
    if (refused !== undefined)
      notes.push({
        level: 'warning',
        what: `${collection}: ${name}`,
        why: isIndex ? `the index was not made: ${refused}` : `holds for new rows alone: ${refused}`,
      })
  }
}

/** Everything that the source has was brought, by this run or an earlier one. */
async function compareCounts(client: pg.Client, { schema, plan }: Brought): Promise<void> {
  for (const { collection } of schema.tables) {
    const { rows } = await client.query<{ count: string }>(
      `select count(*) from svc.adopted where source = 'pocketbase' and kind = 'row' and starts_with(key, $1)`,
      [`${collection.id}/`],
    )
    const wanted = plan.tables.find(({ name }) => name === collection.name)?.rows ?? 0
    if (Number(rows[0]?.count) < wanted)
      throw new Error(`${quoted(collection.name)} has ${wanted} rows in PocketBase, and ${rows[0]?.count} came`)
  }
}
