import { SYSTEM } from '../../core/identity.ts'
import { comparedColumns, Plans, type WholeScan } from '../../db/advice/plans.ts'
import type { Db } from '../../db/db.ts'
import type { Pool } from '../../db/pool/pool.ts'
import { openTables } from '../../db/schema/introspect/open-tables.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { Ident } from '../../db/sql.ts'
import type { AdviceItem } from './advice.ts'
import { policyAdvice } from './policies.ts'
import type { SeenStatement } from './shapes.ts'
import * as q from './sql.ts'

export type AdvisorDeps = {
  db: Db & Pick<Pool, 'openConnection'>
  schema: SchemaCache
  schemas: readonly string[]
  shapes: () => Promise<SeenStatement[]>
}

/** A shape that ran so often and read so many rows for each that it returned lacks an index. */
const [LEAST_RUNS, READ_PER_ROW] = [100, 1_000]
const MOST_EXPLAINED = 200
const UNREAD = /^the index (.+) has never been read$/
/** Shapes that one index is imagined for. */
const MOST_TRIED = 5

type Client = Awaited<ReturnType<Pool['openConnection']>>

/** What would make this database faster or safer. Nothing is built to try it. */
export async function adviceFor({ db, schema, schemas, shapes }: AdvisorDeps): Promise<AdviceItem[]> {
  const seen = await shapes()
  const [catalogue, policies, expands] = await Promise.all([
    db.rows<AdviceItem>(SYSTEM, q.catalogueAdvice, { kind: 'slow', plain: true, givesWay: true }),
    db.rows<q.PolicyToJudge>(SYSTEM, q.policiesWithFunctions, { kind: 'slow', plain: true, givesWay: true }),
    db.rows<q.ExpandRow>(SYSTEM, q.expandsWithoutIndex, { kind: 'slow', plain: true }),
  ])
  const isSeen = ({ child, parent }: q.ExpandRow): boolean =>
    seen.some(({ text }) => text.includes(child) && text.includes(parent))
  const wanted = expands.filter((row) => row.isLarge || isSeen(row))
  const items: AdviceItem[] = [
    ...catalogue,
    ...wanted.map(({ kind, table, what, sql }) => ({ kind, table, what, sql })),
    ...policies.flatMap(policyAdvice),
    ...openTables(schema.read()).map(openTable),
  ]
  const client = await db.openConnection()
  try {
    return await withMissing(client, schemas, seen, items, db)
  } finally {
    await client.end().catch(() => {})
  }
}

function openTable(key: string): AdviceItem {
  const [space = '', ...rest] = key.split('.')
  const table = rest.join('.')
  return {
    kind: 'open_table',
    table: space === 'public' ? table : key,
    what: 'anybody may write to it: it has no row level security',
    sql: `alter table ${new Ident(space, table).quoted} enable row level security`,
  }
}

/** The items, and indexes that shapes lack; with what hypopg says that each index gains. */
async function withMissing(
  client: Client,
  schemas: readonly string[],
  shapes: readonly SeenStatement[],
  items: readonly AdviceItem[],
  db: Db,
): Promise<AdviceItem[]> {
  const plans = await Plans.open(client, schemas)
  const often = shapes.filter(({ runs }) => runs >= LEAST_RUNS).slice(0, MOST_EXPLAINED)
  const missing = new Map<string, { item: AdviceItem; shapes: readonly SeenStatement[] }>()
  const used = new Set<string>()
  for (const shape of often) {
    const explained = await plans.explain(shape.text, shape.role)
    for (const name of explained?.indexes ?? []) used.add(name)
    for (const item of await missingOf(explained?.scans ?? [], db)) {
      const isKnown = items.some((other) => keyOf(other) === keyOf(item))
      if (!isKnown && !missing.has(keyOf(item))) missing.set(keyOf(item), { item, shapes: [shape] })
    }
  }
  // An index that was just made has not been read yet.
  const kept = items.filter(({ what }) => !used.has(UNREAD.exec(what)?.[1] ?? ''))
  const all = [...kept.map((item) => ({ item, shapes: shapesOf(item, often) })), ...missing.values()]
  const hypopg = await schemaOfHypopg(client)
  if (hypopg === undefined) return all.map(({ item }) => item)
  const told: AdviceItem[] = []
  for (const { item, shapes: named } of all) told.push(await withGain(client, hypopg, plans, item, named))
  return told
}

/** Shapes that an index of the catalogue's advice may serve: those that name its table. */
function shapesOf({ sql }: AdviceItem, often: readonly SeenStatement[]): readonly SeenStatement[] {
  const [, space = '', table = ''] = /^create index concurrently on (\w+)\.(\w+) /.exec(sql) ?? []
  return table === '' ? [] : often.filter(({ text }) => text.includes(`"${space}"."${table}"`)).slice(0, MOST_TRIED)
}

async function schemaOfHypopg(client: Client): Promise<string | undefined> {
  const { rows } = await client.query<{ schema: string }>(`select n.nspname as schema from pg_catalog.pg_extension e
    join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = 'hypopg'`)
  return rows[0]?.schema
}

/** The same index, however it is spelled. */
const keyOf = ({ sql }: AdviceItem): string => sql.replaceAll('"', '')

async function missingOf(scans: readonly WholeScan[], db: Db): Promise<AdviceItem[]> {
  if (scans.length === 0) return []
  const names = scans.map(({ schema, table }) => `${schema}.${table}`)
  const tables = await db.rows<q.ScannedTable>(SYSTEM, q.scannedTables(names))
  return scans.flatMap((scan) => {
    const table = tables.find((one) => one.schema === scan.schema && one.table === scan.table)
    if (!table || scan.schema === 'svc' || table.rows < READ_PER_ROW * Math.max(1, scan.rows)) return []
    const columns = comparedColumns(scan.filter)
    const hasIndex = table.leading.some((leading) => leading.split(',')[0] === columns[0])
    if (columns.length === 0 || hasIndex) return []
    const idents = columns.map((name) => `"${name}"`.replace(/^"([a-z_][a-z0-9_]*)"$/, '$1'))
    return {
      kind: 'missing_index',
      table: table.label,
      what: `a query that ran often reads all ${Math.round(table.rows)} rows to find them by ${columns.join(', ')}`,
      sql: `create index concurrently on ${plainIdent(scan.schema)}.${plainIdent(scan.table)} (${idents.join(', ')})`,
    }
  })
}

const plainIdent = (name: string): string => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : new Ident(name).quoted)

/** With the costs of a plan without the index and with it, as hypopg imagines it, where that is less. */
async function withGain(
  client: Client,
  hypopg: string,
  plans: Plans,
  item: AdviceItem,
  shapes: readonly SeenStatement[],
): Promise<AdviceItem> {
  const call = (name: string): string => `${new Ident(hypopg, name).quoted}`
  for (const { text, role } of shapes) {
    const before = await plans.explain(text, role)
    const isImagined = await client
      .query(`select from ${call('hypopg_create_index')}($1)`, [item.sql.replace(' concurrently', '')])
      // It does not imagine every kind of index.
      .then(
        () => true,
        () => false,
      )
    const after = isImagined ? await plans.explain(text, role) : undefined
    await client.query(`select ${call('hypopg_reset')}()`)
    if (before && after && after.cost < before.cost)
      return { ...item, gain: { before: before.cost, after: after.cost } }
  }
  return item
}
