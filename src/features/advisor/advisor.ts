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

type Client = Awaited<ReturnType<Pool['openConnection']>>

/** What would make this database faster or safer. Nothing is built to try it. */
export async function adviceFor({ db, schema, schemas, shapes }: AdvisorDeps): Promise<AdviceItem[]> {
  const seen = await shapes()
  const [catalogue, policies, expands] = await Promise.all([
    db.rows<AdviceItem>(SYSTEM, q.catalogueAdvice, { kind: 'slow', plain: true }),
    db.rows<q.PolicyToJudge>(SYSTEM, q.policiesWithFunctions, { kind: 'slow', plain: true }),
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
  const missing = new Map<string, { item: AdviceItem; shape: SeenStatement }>()
  for (const shape of often) {
    const explained = await plans.explain(shape.text, shape.role)
    for (const item of await missingOf(explained?.scans ?? [], db)) {
      const isKnown = items.some((other) => keyOf(other) === keyOf(item))
      if (!isKnown && !missing.has(keyOf(item))) missing.set(keyOf(item), { item, shape })
    }
  }
  const found = [...missing.values()]
  const hasHypopg = (await client.query(`select from pg_catalog.pg_extension where extname = 'hypopg'`)).rowCount === 1
  const told: AdviceItem[] = [...items]
  for (const { item, shape } of found) {
    const gain = hasHypopg ? await gainOf(client, plans, item, shape) : undefined
    told.push(gain ? { ...item, gain } : item)
  }
  return told
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

/** Costs of the plan without the index and with it, as hypopg imagines it. */
async function gainOf(
  client: Client,
  plans: Plans,
  item: AdviceItem,
  shape: SeenStatement,
): Promise<AdviceItem['gain']> {
  const before = await plans.explain(shape.text, shape.role)
  await client.query('select * from hypopg_create_index($1)', [item.sql.replace(' concurrently', '')])
  const after = await plans.explain(shape.text, shape.role)
  await client.query('select hypopg_reset()')
  return before && after ? { before: before.cost, after: after.cost } : undefined
}
