import type { DryRun, LoggedChange } from '../../db/history/dry-run.ts'
import { mayDo, tableByOid } from '../../db/schema/lookup.ts'
import type { Schema, Table } from '../../db/schema/snapshot.ts'
import { isAllowed, type Viewer } from '../../db/schema/viewer.ts'
import { type AboutWrite, normalised, type RunValues } from './generated.ts'
import type { WrittenRows } from './sql.ts'

type Counts = { create: number; update: number; delete: number }

export type Difference = {
  /** The member `changes` of the answer, as JSON text. */
  readonly changes: string
  /** By table, those that the caller may see. */
  readonly counts: Readonly<Record<string, Counts>>
  /** Of all tables. */
  readonly rows: number
  /** The whole, with what the database generates left out: the same text is the same difference. */
  readonly text: string
  readonly isCut: boolean
  /** Rows were written that the log does not know. */
  readonly isUnlogged: boolean
  readonly oids: readonly number[]
  /** Tables that were read. */
  readonly read: readonly number[]
  /** Values that the database made. */
  readonly generated: ReadonlySet<unknown>
  /** What the database itself fills, by table and column. */
  readonly columns: AboutWrite['columns']
}

/** A transaction looks back on what it wrote. `before` and `after` are the session's counts of written rows. */
export function differenceOf(
  run: DryRun,
  about: AboutWrite,
  [before, after]: readonly [readonly WrittenRows[], readonly WrittenRows[]],
  /** What the same statements wrote before, on the same data. */
  earlier: RunValues | undefined,
  schema: Schema,
  viewer: Viewer,
): Difference {
  const written = writtenBetween(before, after)
  const logged = loggedCounts(run.logged)
  const oids = [...new Set([...written.keys(), ...logged.keys()])].sort((a, b) => a - b)
  const counts = new Map<string, Counts>()
  const uncounted: [number, Counts][] = []
  let [rows, hasOthers] = [0, false]
  for (const oid of oids) {
    const [inLog, inTable] = [logged.get(oid) ?? NONE, written.get(oid) ?? NONE]
    const most = {
      create: Math.max(inLog.create, inTable.create),
      update: Math.max(inLog.update, inTable.update),
      delete: Math.max(inLog.delete, inTable.delete),
    }
    rows += most.create + most.update + most.delete
    if (sum(inTable) > sum(inLog)) uncounted.push([oid, inTable])
    const table = tableByOid(schema, oid)
    if (table && mayDo(table, viewer.role, 'select') && isAllowed(schema, table, viewer))
      counts.set(labelOf(table), most)
    else hasOthers = true
  }
  const { rest, generated } = normalised(run.logged, about, earlier)
  const seenBefore = new Map(before.map(({ oid, seen }) => [oid, seen]))
  const told = run.told.replace(/^"changes":/, '').replace(/,"truncated":true$/, '')
  return {
    changes: hasOthers && !told.includes('{"other":true}') ? withOther(told) : told,
    counts: Object.fromEntries(counts),
    // A table that was rewritten is more than any count allows.
    rows: about.locked.length > 0 ? Math.max(rows, 1_000_000) : rows,
    text: JSON.stringify([rest, uncounted, about.locked]),
    isCut: run.isCut,
    isUnlogged: uncounted.length > 0 || about.locked.length > 0,
    oids,
    read: after.filter(({ oid, seen }) => seen > (seenBefore.get(oid) ?? 0)).map(({ oid }) => oid),
    generated,
    columns: about.columns,
  }
}

const withOther = (told: string): string =>
  told === '[]' ? '[{"other":true}]' : `${told.slice(0, -1)},{"other":true}]`

const NONE: Counts = { create: 0, update: 0, delete: 0 }
const sum = ({ create, update, delete: removed }: Counts): number => create + update + removed
const labelOf = ({ schema, name }: Table): string => (schema === 'public' ? name : `${schema}.${name}`)

/** The table that a difference calls by this name, whichever schemas are searched first. */
export const tableByLabel = (schema: Schema, label: string): Table | undefined =>
  [...schema.tables.values()].find((table) => labelOf(table) === label)

/** By table. */
export function writtenBetween(before: readonly WrittenRows[], after: readonly WrittenRows[]): Map<number, Counts> {
  const were = new Map(before.map((one) => [one.oid, one]))
  const counts = new Map<number, Counts>()
  for (const { oid, made, changed, removed } of after) {
    const was = were.get(oid)
    const count = {
      create: made - (was?.made ?? 0),
      update: changed - (was?.changed ?? 0),
      delete: removed - (was?.removed ?? 0),
    }
    if (sum(count) > 0) counts.set(oid, count)
  }
  return counts
}

function loggedCounts(changes: readonly LoggedChange[]): Map<number, Counts> {
  const counts = new Map<number, Counts>()
  for (const { oid, action } of changes) {
    const count = counts.get(oid) ?? { ...NONE }
    if (action === 'create' || action === 'update' || action === 'delete') count[action]++
    else count.delete++
    counts.set(oid, count)
  }
  return counts
}
