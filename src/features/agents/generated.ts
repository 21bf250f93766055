import { getOrCreate } from '../../core/get-or-create.ts'
import { parseKeepingDigits } from '../../core/json-digits.ts'
import type { LoggedChange } from '../../db/history/dry-run.ts'

/** What the database says about a write; see svc.made_columns() and svc.present_defaults(). */
export type AboutWrite = {
  /** Milliseconds. */
  readonly begun: number
  readonly now: number
  /** Tables that were rewritten or emptied. */
  readonly locked: readonly number[]
  readonly columns: Readonly<Record<string, Readonly<Record<string, ColumnKind>>>>
  /** What defaults are at this moment, where only that decides it: `now() + '7 days'`. */
  readonly defaults: Readonly<Record<string, Image>>
}
/** `made`: by a default that is new each time. `time`, `uuid`: may be a stamp. */
type ColumnKind = 'made' | 'time' | 'uuid' | 'value'

type Image = Readonly<Record<string, unknown>>
/** Every value of a column, those inside of arrays and objects too. */
export type RunValues = ReadonlyMap<string, ReadonlySet<unknown>>

/** By how much a moment may have been rounded, as its digits say. An older row that was restored is no moment of now. */
const precisionMs = (moment: string): number => Math.max(1, 1_000 / 10 ** (/\.(\d+)/.exec(moment)?.[1]?.length ?? 0))

const imageOf = (text: string | null): Image | null => (text === null ? null : (parseKeepingDigits(text) as Image))
const keyOf = ({ key }: LoggedChange): unknown => (key === null ? null : parseKeepingDigits(key))

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const MOMENT = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$/

function isMoment(value: unknown, { begun, now }: AboutWrite): value is string {
  if (typeof value !== 'string' || !MOMENT.test(value)) return false
  if (value.length === 10) return value === new Date(now).toJSON().slice(0, 10)
  const at = Date.parse(/(Z|[+-]\d\d(:?\d\d)?)$/.test(value) ? value.replace(/([+-]\d\d)$/, '$1:00') : `${value}Z`)
  return at >= begun - precisionMs(value) && at <= now + precisionMs(value)
}

/** A value that this write put into a column. */
type Written = { readonly oid: number; readonly name: string; readonly value: unknown }

const writtenIn = (changes: readonly LoggedChange[]): Written[] =>
  changes.flatMap(({ oid, old, new: now }) => {
    const before = imageOf(old)
    return Object.entries(imageOf(now) ?? {})
      .filter(([name, value]) => before === null || !isSame(before[name], value))
      .map(([name, value]) => ({ oid, name, value }))
  })

const isDefault = ({ oid, name, value }: Written, { defaults }: AboutWrite): boolean =>
  value !== null && Object.hasOwn(defaults[oid] ?? {}, name) && isSame(defaults[oid]?.[name], value)

/** Where the database may have generated it: only a second run on the same data tells. */
function mayBeGenerated(written: Written, about: AboutWrite): boolean {
  const { oid, name, value } = written
  const kind = about.columns[oid]?.[name]
  if (kind === 'uuid') return typeof value === 'string' && UUID.test(value)
  return kind === 'made' && value !== null && !isMoment(value, about) && !isDefault(written, about)
}

/** Whether a write has to be run twice, so that what the database generates is told from what it copies. */
export const hasGenerated = (changes: readonly LoggedChange[], about: AboutWrite): boolean =>
  writtenIn(changes).some((written) => mayBeGenerated(written, about))

const placeOf = (oid: number, name: string | null): string => JSON.stringify([oid, name])

/** All values of a write, by table and column. */
export function valuesOf(changes: readonly LoggedChange[]): RunValues {
  const found = new Map<string, Set<unknown>>()
  const note = (place: string, value: unknown): void => {
    if (typeof value === 'object' && value !== null) for (const inner of Object.values(value)) note(place, inner)
    else getOrCreate(found, place, () => new Set()).add(value)
  }
  for (const change of changes) {
    note(placeOf(change.oid, null), keyOf(change))
    for (const image of [imageOf(change.old), imageOf(change.new)]) {
      for (const [name, value] of Object.entries(image ?? {})) note(placeOf(change.oid, name), value)
    }
  }
  return found
}

/**
 * The changes without what the database generates: the moment, and what a second run of the same statements on the same data
 * (`earlier` is the first one) made anew, in columns that are filled like that. What is copied from elsewhere is the same in
 * both. Where a generated value turns up again, it is the same one.
 */
export function normalised(
  changes: readonly LoggedChange[],
  about: AboutWrite,
  earlier: RunValues | undefined,
): { rest: unknown; generated: ReadonlySet<unknown> } {
  const made = new Map<unknown, number>()
  /** Moments that this transaction wrote: what a row had before is no stamp, however young. */
  const stamps = new Set<unknown>()
  const defaults = new Set<unknown>()
  const noteStamps = (value: unknown): void => {
    if (isMoment(value, about)) stamps.add(value)
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(noteStamps)
  }
  const isFresh = (place: string, value: unknown): boolean => earlier !== undefined && !earlier.get(place)?.has(value)
  // First what is generated, wherever it is.
  for (const written of writtenIn(changes)) {
    const { oid, name, value } = written
    noteStamps(value)
    if (isDefault(written, about)) defaults.add(value)
    if (made.has(value) || !mayBeGenerated(written, about) || !isFresh(placeOf(oid, name), value)) continue
    made.set(value, made.size + 1)
  }
  // An object is marked by an empty one, so that no array is the same text, and no value the same as what stands for one.
  const plain = (value: unknown, place: string): unknown => {
    if (stamps.has(value)) return { now: true }
    if (defaults.has(value)) return { default: true }
    if (made.has(value) && isFresh(place, value)) return { generated: made.get(value) }
    if (Array.isArray(value)) return value.map((one) => plain(one, place))
    if (typeof value !== 'object' || value === null) return value
    return [{}, ...Object.entries(value).map(([name, inner]) => [name, plain(inner, place)])]
  }
  const rest = changes.map((change) => {
    const { oid, action, old, new: now } = change
    const image = (of: Image | null) =>
      of &&
      Object.entries(of)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, value]) => [name, plain(value, placeOf(oid, name))])
    return [oid, action, plain(keyOf(change), placeOf(oid, null)), image(imageOf(old)), image(imageOf(now))]
  })
  return { rest, generated: new Set([...made.keys(), ...defaults]) }
}

const isSame = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b)
