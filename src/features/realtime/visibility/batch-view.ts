import { AppError, reasonOf } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Change } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import { columnsFor, type Viewer } from '../../../db/schema/viewer.ts'
import { compile } from '../subscribe/filter.ts'
import { type Interest, keyOf, listensTo } from '../subscribe/interest.ts'
import { filterOn } from '../subscribe/wanted.ts'
import { EncodedChange, EncodedChanges } from './encoded-change.ts'
import type { FilterQueue } from './filter-queue.ts'
import { survey, type Viewing, visibleTo } from './row-security.ts'
import { type Answer, BOTH, formOf, NEITHER, readSides, type Sides, type SidesByNumber } from './sides.ts'
import { matchesOf, type Numbered, withoutColumns } from './sql.ts'
import { CHECK, isTransient, TableChanges } from './table-changes.ts'

/** What a subscriber is sent, or why PostgreSQL could not say. */
export type Verdict = EncodedChanges | AppError

/** A page of the log and those who may want it: what each gets, after PostgreSQL was asked where it has to be. */
export type View = {
  /** The verdict where PostgreSQL need not be asked: no change of a wanted table, or no filter, policy or hidden column. */
  unchecked(interest: Interest): EncodedChanges | undefined
  /** The verdict on each, after PostgreSQL was asked. */
  check(interests: readonly Interest[]): Promise<ReadonlyMap<Interest, Verdict>>
}

export type ViewDeps = { db: Db; filters: Pick<FilterQueue, 'run'>; observe: Observe }

/** A table of the page. `changes`: undefined when the table is gone, or when no interest listens to it. */
type Laid = { readonly key: string; readonly items: Numbered[]; table: Table | undefined; changes?: TableChanges }

/** JSON of records and of keys without the columns that a role may not read, by the numbers of the changes. */
type Records = ReadonlyMap<number, { readonly full: string | null; readonly key: string }>

type Answers = {
  /** By role and table; where nothing is hidden there is none. */
  readonly records: ReadonlyMap<string, Records>
  /** By role, table and filter. */
  readonly matches: ReadonlyMap<string, Answer>
  /** By session. */
  readonly seen: ReadonlyMap<string, Answer>
}

const FILTER = { ...CHECK, timeoutMs: 1_000 } as const

/** Lays the changes out by table, and looks up row security of the tables that are listened to. */
export async function viewOf(
  deps: ViewDeps,
  schema: Schema,
  changes: readonly Change[],
  interests: readonly Interest[],
): Promise<View> {
  const onUnreadable = ({ position, name }: Change, error: unknown): void =>
    deps.observe({
      message: 'realtime: logged record is no row of its table',
      attrs: { position, table: name, error: reasonOf(error) },
    })
  const laid = new Map<string, Laid>()
  for (const [n, change] of changes.entries()) {
    const key = keyOf(change)
    const known = laid.get(key) ?? { key, items: [], table: schema.tables.get(key) }
    known.items.push({ n, change })
    laid.set(key, known)
  }
  const isListenedTo = ({ key, table }: Laid): boolean => interests.some((one) => listensTo(one, key, table, schema))
  const tables = [...laid.values()].flatMap((one) => (one.table && isListenedTo(one) ? one.table : []))
  const state = await survey(deps.db, tables)
  for (const one of laid.values()) {
    const { table, items } = one
    const security = table && state[table.oid]
    if (security) one.changes = new TableChanges({ schema, table }, items, security, { db: deps.db, onUnreadable })
  }
  return new BatchView(deps, schema, laid)
}

class BatchView implements View {
  readonly #deps: ViewDeps
  readonly #schema: Schema
  readonly #laid: ReadonlyMap<string, Laid>
  readonly #relevant = new Map<Interest, Laid[]>()
  readonly #encoded = new Map<string, EncodedChange>()
  /** By the tables that are wanted. */
  readonly #unchecked = new Map<string, EncodedChanges>()

  constructor(deps: ViewDeps, schema: Schema, laid: ReadonlyMap<string, Laid>) {
    this.#deps = deps
    this.#schema = schema
    this.#laid = laid
  }

  unchecked(interest: Interest): EncodedChanges | undefined {
    const relevant = this.#relevantTo(interest)
    const isFree = relevant.every(
      (one) =>
        filterOn(interest.wanted, one.key) === undefined &&
        !isSecured(one, interest.viewer) &&
        hiddenColumns(one.table, interest.viewer).length === 0,
    )
    if (!isFree) return undefined
    const key = relevant.map((one) => one.key).join()
    const known = this.#unchecked.get(key) ?? this.#compose(interest, NO_ANSWERS)
    this.#unchecked.set(key, known)
    return known
  }

  async check(interests: readonly Interest[]): Promise<Map<Interest, Verdict>> {
    const answers = {
      records: await this.#cutRecords(interests),
      matches: await this.#matchFilters(interests),
      seen: await visibleTo(this.#deps.db, this.#viewings(interests)),
    }
    return new Map(
      interests.map((interest) => [interest, this.unchecked(interest) ?? this.#verdict(interest, answers)]),
    )
  }

  /** A table that is gone has no policies to ask: only those who are never asked about still get its changes. */
  #relevantTo(interest: Interest): readonly Laid[] {
    const known = this.#relevant.get(interest)
    if (known) return known
    const relevant = [...this.#laid.values()].filter(
      ({ key, table, changes }) =>
        (interest.viewer.role === 'none' || changes) && listensTo(interest, key, table, this.#schema),
    )
    this.#relevant.set(interest, relevant)
    return relevant
  }

  /** The rows that PostgreSQL is asked about, by session. */
  #viewings(interests: readonly Interest[]): Map<string, Viewing> {
    const viewings = new Map<string, Viewing & { tables: Set<TableChanges> }>()
    for (const interest of interests) {
      const { who, session, sessionKey, viewer } = interest
      for (const one of this.#relevantTo(interest)) {
        if (!one.changes || !isSecured(one, viewer)) continue
        const viewing = viewings.get(sessionKey) ?? { who, session, tables: new Set() }
        viewings.set(sessionKey, viewing)
        viewing.tables.add(one.changes)
      }
    }
    return viewings
  }

  async #cutRecords(interests: readonly Interest[]): Promise<Map<string, Records>> {
    const cut = new Map<string, Records>()
    for (const interest of interests) {
      for (const { key, table, items } of this.#relevantTo(interest)) {
        const hidden = hiddenColumns(table, interest.viewer)
        const name = `${interest.viewer.role} ${key}`
        if (!table || hidden.length === 0 || cut.has(name)) continue
        const text = (await this.#deps.db.fly(SYSTEM, withoutColumns(table, items, hidden))) ?? '[]'
        const found = JSON.parse(text) as [number, string | null, string][]
        cut.set(name, new Map(found.map(([n, full, key]) => [n, { full, key }])))
      }
    }
    return cut
  }

  async #matchFilters(interests: readonly Interest[]): Promise<Map<string, Answer>> {
    const matches = new Map<string, Answer>()
    for (const interest of interests) {
      for (const { key, changes } of this.#relevantTo(interest)) {
        const filter = filterOn(interest.wanted, key)
        const name = filterKey(interest, key)
        if (changes && filter !== undefined && !matches.has(name)) {
          matches.set(name, await this.#match(interest, filter, changes))
        }
      }
    }
    return matches
  }

  /** A filter whose column is gone meanwhile, or that takes too long, ends its own streams alone. */
  async #match({ who, viewer, sessionKey }: Interest, text: string, changes: TableChanges): Promise<Answer> {
    try {
      const filter = compile(text, changes, viewer)
      const images = await changes.images()
      const { answer } = await this.#deps.filters.run(sessionKey, async () => {
        const answer = (await this.#deps.db.fly(who, matchesOf(changes.table, filter, images), FILTER)) ?? ''
        return { answer, ms: Number(answer.split('|').at(-1)) || 0 }
      })
      const matched: SidesByNumber = new Map()
      readSides(answer, images, matched)
      return matched
    } catch (error) {
      if (!(error instanceof AppError) || isTransient(error)) throw error
      return error
    }
  }

  #verdict(interest: Interest, answers: Answers): Verdict {
    const matches = this.#relevantTo(interest).map(({ key }) => answers.matches.get(filterKey(interest, key)))
    const failed = [answers.seen.get(interest.sessionKey), ...matches].find((answer) => answer instanceof AppError)
    return failed ?? this.#compose(interest, answers)
  }

  /** The changes in their order, in the form in which the subscriber may see each. */
  #compose(interest: Interest, { records, matches, seen }: Answers): EncodedChanges {
    const { viewer, sessionKey, wanted } = interest
    const made: [number, EncodedChange][] = []
    for (const one of this.#relevantTo(interest)) {
      const { key, items } = one
      const seenSides = isSecured(one, viewer) ? sidesIn(seen.get(sessionKey)) : always
      const matchedSides = filterOn(wanted, key) === undefined ? always : sidesIn(matches.get(filterKey(interest, key)))
      const cut = records.get(`${viewer.role} ${key}`)
      for (const { n, change } of items) {
        const form = formOf(change.action, seenSides(n), matchedSides(n))
        if (form) made.push([n, this.#encode({ n, change }, form, cut, viewer)])
      }
    }
    return new EncodedChanges(made.sort(([a], [b]) => a - b).map(([, change]) => change))
  }

  #encode({ n, change }: Numbered, form: 'full' | 'key', cut: Records | undefined, viewer: Viewer): EncodedChange {
    const name = `${n} ${form} ${cut ? viewer.role : ''}`
    const known = this.#encoded.get(name)
    if (known) return known
    const { position, action, name: table, record, pk } = change
    const encoded =
      form === 'full'
        ? new EncodedChange(position, action, table, cut?.get(n)?.full ?? record ?? '{}')
        : new EncodedChange(position, 'delete', table, cut?.get(n)?.key ?? pk)
    this.#encoded.set(name, encoded)
    return encoded
  }
}

const NO_ANSWERS: Answers = { records: new Map(), matches: new Map(), seen: new Map() }

const always = (): Sides => BOTH
const sidesIn = (answer: Answer | undefined) => (n: number) =>
  (answer instanceof Map ? answer.get(n) : undefined) ?? NEITHER

const isSecured = ({ changes }: Laid, { role }: Viewer): boolean => role !== 'none' && changes?.security.rls === true

const filterKey = ({ viewer, wanted }: Interest, table: string): string =>
  JSON.stringify([viewer.role, table, filterOn(wanted, table)])

function hiddenColumns(table: Table | undefined, { role }: Viewer): string[] {
  if (!table || role === 'none') return []
  const visible = columnsFor(table, role)
  if (visible.length === table.columns.size) return []
  const names = new Set(visible.map((column) => column.name))
  return [...table.columns.keys()].filter((name) => !names.has(name))
}
