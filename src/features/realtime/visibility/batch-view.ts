import { AppError, reasonOf } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Change } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import { tableByOid } from '../../../db/schema/lookup.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import { columnsFor, type Viewer } from '../../../db/schema/viewer.ts'
import { compile } from '../subscribe/filter.ts'
import { type Interest, interestKey, listensTo } from '../subscribe/interest.ts'
import { filterOn } from '../subscribe/wanted.ts'
import { type EncodedChange, EncodedChanges } from './encoded-change.ts'
import type { FilterQueue } from './filter-queue.ts'
import { type Viewing, visibleTo } from './row-security.ts'
import { BOTH, formOf, NEITHER, readSides, type Sides, type SidesByNumber, type SidesOrError } from './sides.ts'
import { matchesOf, type Numbered, type Survey, surveyTables, withoutColumns } from './sql.ts'
import { CHECK, isTransient, type TableChanges, tableChanges } from './table-changes.ts'

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

/** What PostgreSQL answered about a table: what it did not have to be asked is undefined. */
type Sight = {
  of: Laid
  seen?: SidesByNumber | undefined
  matches?: SidesByNumber | undefined
  cut?: Records | undefined
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
    const table = tableByOid(schema, change.oid)
    // Not the key of another table that has the name of one that is gone.
    const key = table || !schema.tables.has(interestKey(change)) ? interestKey(table ?? change) : `.${change.name}`
    const current = table ? { ...change, schema: table.schema, name: table.name } : change
    getOrCreate(laid, key, () => ({ key, items: [], table })).items.push({ n, change: current })
  }
  const isListenedTo = ({ key, table }: Laid): boolean => interests.some((one) => listensTo(one, key, table, schema))
  const oids = [...laid.values()].flatMap((one) => (one.table && isListenedTo(one) ? one.table.oid : []))
  const survey = oids.length > 0 ? await deps.db.fly(SYSTEM, surveyTables(oids)) : null
  const securities = JSON.parse(survey ?? '{}') as Survey
  for (const one of laid.values()) {
    const { table, items } = one
    const security = table && securities[table.oid]
    if (security) one.changes = tableChanges({ schema, table }, items, security, { db: deps.db, onUnreadable })
  }
  return new BatchView(deps, schema, laid)
}

class BatchView implements View {
  readonly #deps: ViewDeps
  readonly #schema: Schema
  readonly #laid: ReadonlyMap<string, Laid>
  readonly #relevant = new Map<Interest, Laid[]>()
  /** By the tables that are wanted. */
  readonly #unchecked = new Map<string, EncodedChanges>()
  /** By the number of the change, its form and, where columns are hidden, the role. */
  readonly #encoded = new Map<string, EncodedChange>()
  /** By role and table. */
  readonly #cut = new Map<string, Promise<Records>>()
  /** By role, table and filter. */
  readonly #matches = new Map<string, Promise<SidesOrError>>()

  constructor(deps: ViewDeps, schema: Schema, laid: ReadonlyMap<string, Laid>) {
    this.#deps = deps
    this.#schema = schema
    this.#laid = laid
  }

  unchecked(interest: Interest): EncodedChanges | undefined {
    const { viewer, wanted } = interest
    const relevant = this.#relevantTo(interest)
    const mustAsk = relevant.some(
      (one) => filterOn(wanted, one.key) || isSecured(one, viewer) || hiddenColumns(one, viewer).length > 0,
    )
    if (mustAsk) return undefined
    return getOrCreate(this.#unchecked, relevant.map(({ key }) => key).join(), () =>
      this.#compose(
        relevant.map((of) => ({ of })),
        viewer,
      ),
    )
  }

  async check(interests: readonly Interest[]): Promise<Map<Interest, Verdict>> {
    const seen = await visibleTo(this.#deps.db, this.#viewings(interests))
    const verdicts = new Map<Interest, Verdict>()
    for (const interest of interests) {
      verdicts.set(interest, this.unchecked(interest) ?? (await this.#verdict(interest, seen.get(interest.sessionKey))))
    }
    return verdicts
  }

  /** A table that is gone has no policies to ask: only those who are never asked about still get its changes. */
  #relevantTo(interest: Interest): readonly Laid[] {
    return getOrCreate(this.#relevant, interest, () =>
      [...this.#laid.values()].filter(
        ({ key, table, changes }) =>
          (interest.viewer.role === 'none' || changes) && listensTo(interest, key, table, this.#schema),
      ),
    )
  }

  /** The tables about whose rows PostgreSQL is asked, by session. */
  #viewings(interests: readonly Interest[]): Map<string, Viewing> {
    const viewings = new Map<string, Viewing & { tables: Set<TableChanges> }>()
    for (const interest of interests) {
      const { who, session, sessionKey, viewer } = interest
      for (const one of this.#relevantTo(interest)) {
        if (!one.changes || !isSecured(one, viewer)) continue
        getOrCreate(viewings, sessionKey, () => ({ who, session, tables: new Set() })).tables.add(one.changes)
      }
    }
    return viewings
  }

  async #verdict(interest: Interest, seen: SidesOrError | undefined): Promise<Verdict> {
    if (seen instanceof AppError) return seen
    const sights: Sight[] = []
    for (const of of this.#relevantTo(interest)) {
      const matches = await this.#matchesOf(interest, of)
      if (matches instanceof AppError) return matches
      const visible = isSecured(of, interest.viewer) ? (seen ?? NOTHING) : undefined
      sights.push({ of, matches, seen: visible, cut: await this.#cutOf(interest, of) })
    }
    return this.#compose(sights, interest.viewer)
  }

  /** The changes that the filter of an interest matches. */
  async #matchesOf(interest: Interest, { key, changes }: Laid): Promise<SidesOrError | undefined> {
    const { viewer, wanted } = interest
    const filter = filterOn(wanted, key)
    if (filter === undefined) return undefined
    const name = JSON.stringify([viewer.role, key, filter])
    return getOrCreate(this.#matches, name, async () => (changes ? this.#match(interest, filter, changes) : NOTHING))
  }

  /** A filter whose column is gone meanwhile, or that takes too long, ends its own streams alone. */
  async #match({ who, viewer, sessionKey }: Interest, text: string, changes: TableChanges): Promise<SidesOrError> {
    const { db, filters } = this.#deps
    try {
      const filter = compile(text, changes, viewer)
      const images = await changes.images()
      const { answer } = await filters.run(sessionKey, async () => {
        const answer = (await db.fly(who, matchesOf(changes.table, filter, images), FILTER)) ?? ''
        return { answer, ms: Number(answer.split('|').at(-1)) || 0 }
      })
      const matches: SidesByNumber = new Map()
      readSides(answer, images, matches)
      return matches
    } catch (error) {
      if (!(error instanceof AppError) || isTransient(error)) throw error
      return error
    }
  }

  async #cutOf({ viewer }: Interest, of: Laid): Promise<Records | undefined> {
    const { key, table, items } = of
    const hidden = hiddenColumns(of, viewer)
    if (!table || hidden.length === 0) return undefined
    return getOrCreate(this.#cut, `${viewer.role} ${key}`, async () => {
      const text = (await this.#deps.db.fly(SYSTEM, withoutColumns(table, items, hidden))) ?? '[]'
      const found = JSON.parse(text) as [number, string | null, string][]
      return new Map(found.map(([n, full, key]) => [n, { full, key }]))
    })
  }

  /** The changes in their order, in the form in which the subscriber may see each. */
  #compose(sights: readonly Sight[], viewer: Viewer): EncodedChanges {
    const made: [number, EncodedChange][] = []
    for (const { of, seen, matches, cut } of sights) {
      for (const { n, change } of of.items) {
        const form = formOf(change.action, sidesOf(seen, n), sidesOf(matches, n))
        if (form) made.push([n, this.#encode({ n, change }, form, cut, viewer)])
      }
    }
    return new EncodedChanges(made.sort(([a], [b]) => a - b).map(([, change]) => change))
  }

  #encode({ n, change }: Numbered, form: 'full' | 'key', cut: Records | undefined, viewer: Viewer): EncodedChange {
    const { position, action, name: table, record, pk } = change
    return getOrCreate(this.#encoded, `${n} ${form} ${cut ? viewer.role : ''}`, () =>
      form === 'full'
        ? { position, action, table, record: cut?.get(n)?.full ?? record ?? '{}', bytes: new Map() }
        : { position, action: 'delete', table, record: cut?.get(n)?.key ?? pk, bytes: new Map() },
    )
  }
}

const NOTHING: SidesByNumber = new Map()
const sidesOf = (known: SidesByNumber | undefined, n: number): Sides => (known ? (known.get(n) ?? NEITHER) : BOTH)

const isSecured = ({ changes }: Laid, { role }: Viewer): boolean => role !== 'none' && changes?.security.rls === true

function hiddenColumns({ table }: Laid, { role }: Viewer): string[] {
  if (!table || role === 'none') return []
  const visible = columnsFor(table, role)
  if (visible.length === table.columns.size) return []
  const names = new Set(visible.map((column) => column.name))
  return [...table.columns.keys()].filter((name) => !names.has(name))
}
