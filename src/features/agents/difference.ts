import { parseKeepingDigits } from '../../core/json-digits.ts'
import type { DryRun, LoggedChange } from '../../db/history/dry-run.ts'
import { mayDo, tableByOid } from '../../db/schema/lookup.ts'
import type { Schema, Table } from '../../db/schema/snapshot.ts'
import { isAllowed, type Viewer } from '../../db/schema/viewer.ts'
import type { WrittenRows } from './sql.ts'

/** What the catalogue says about a write; see svc.made_columns(). */
export type AboutWrite = {
  /** Milliseconds. */
  readonly begun: number
  readonly now: number
  /** Tables that were rewritten or emptied. */
  readonly locked: readonly number[]
  readonly columns: Readonly<Record<string, Readonly<Record<string, ColumnKind>>>>
}
/** `made`: by a default that is new each time. `time`, `uuid`: may be a stamp. */
type ColumnKind = 'made' | 'time' | 'uuid' | 'value'

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
  /** What the database itself fills, by table and column. */
  readonly columns: AboutWrite['columns']
}

/** A transaction looks back on what it wrote. `before` and `after` are the session's counts of written rows. */
export function differenceOf(
  run: DryRun,
  about: AboutWrite,
  [before, after]: readonly [readonly WrittenRows[], readonly WrittenRows[]],
  args: string,
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
  const told = run.told.replace(/^"changes":/, '').replace(/,"truncated":true$/, '')
  return {
    changes: hasOthers && !told.includes('{"other":true}') ? withOther(told) : told,
    counts: Object.fromEntries(counts),
    // A table that was rewritten is more than any count allows.
    rows: about.locked.length > 0 ? Math.max(rows, 1_000_000) : rows,
    text: JSON.stringify([normalised(run.logged, about, args), uncounted, about.locked]),
    isCut: run.isCut,
    isUnlogged: uncounted.length > 0 || about.locked.length > 0,
    oids,
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

function writtenBetween(before: readonly WrittenRows[], after: readonly WrittenRows[]): Map<number, Counts> {
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

/** By how much a moment may have been rounded, as its digits say. An older row that was restored is no moment of now. */
const precisionMs = (moment: string): number => Math.max(1, 1_000 / 10 ** (/\.(\d+)/.exec(moment)?.[1]?.length ?? 0))

type Image = Readonly<Record<string, unknown>>
const imageOf = (text: string | null): Image | null => (text === null ? null : (parseKeepingDigits(text) as Image))

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const MOMENT = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$/

/**
 * The changes without what the database generates: identities, defaults that are new each time, the moment, and random ids
 * that no policy or foreign key reads. Where a generated value turns up again, it is the same one.
 */
function normalised(changes: readonly LoggedChange[], about: AboutWrite, args: string): unknown {
  const made = new Map<unknown, { name: string; oid: number }>()
  /** Moments that this transaction wrote: what a row had before is no stamp, however young. */
  const stamps = new Set<string>()
  const noteStamps = (value: unknown): void => {
    if (typeof value === 'string' && isMoment(value)) stamps.add(value)
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(noteStamps)
  }
  const isMoment = (value: string): boolean => {
    if (!MOMENT.test(value)) return false
    if (value.length === 10) return value === new Date(about.now).toJSON().slice(0, 10)
    const at = Date.parse(/(Z|[+-]\d\d(:?\d\d)?)$/.test(value) ? value.replace(/([+-]\d\d)$/, '$1:00') : `${value}Z`)
    return at >= about.begun - precisionMs(value) && at <= about.now + precisionMs(value)
  }
  const isGiven = (value: unknown): boolean => typeof value === 'string' && args.includes(value)
  const isGenerated = (kind: ColumnKind | undefined, value: unknown, isNew: boolean): boolean =>
    isNew &&
    ((kind === 'made' && !isGiven(value)) ||
      (kind === 'uuid' && typeof value === 'string' && UUID.test(value) && !isGiven(value)))
  // First what is generated, wherever it is.
  for (const { oid, old, new: now } of changes) {
    const [before, after] = [imageOf(old), imageOf(now)]
    for (const [name, value] of Object.entries(after ?? {})) {
      const isNew = before === null || !isSame(before[name], value)
      if (isNew) noteStamps(value)
      if (value === null || made.has(value) || !isGenerated(about.columns[oid]?.[name], value, isNew)) continue
      made.set(value, { name: `generated ${made.size + 1}`, oid })
    }
  }
  // A number may be the same by chance: in its own table only where it was made.
  const plain = (value: unknown, oid: number, isMade: boolean): unknown => {
    if (typeof value === 'string' && stamps.has(value)) return 'now'
    const known = made.get(value)
    if (known && !isGiven(value) && (typeof value === 'string' || isMade || known.oid !== oid)) return known.name
    if (Array.isArray(value)) return value.map((one) => plain(one, oid, isMade))
    if (typeof value === 'object' && value !== null) {
      // Marked, so that no array is the same text as an object.
      return [{}, ...Object.entries(value).map(([name, inner]) => [name, plain(inner, oid, isMade)])]
    }
    return value
  }
  return changes.map(({ oid, action, key, old, new: now }) => {
    const [before, after] = [imageOf(old), imageOf(now)]
    const isMade = (name: string): boolean => about.columns[oid]?.[name] === 'made'
    const image = (of: Image | null) =>
      of &&
      Object.keys(of)
        .sort()
        .map((name) => [name, plain(of[name], oid, isMade(name))])
    return [oid, action, plain(key === null ? null : parseKeepingDigits(key), oid, true), image(before), image(after)]
  })
}

const isSame = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b)
