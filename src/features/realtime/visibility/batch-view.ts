import { AppError, reasonOf, unavailable } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Change } from '../../../db/changes/log.ts'
import { raisedBy } from '../../../db/pg-errors.ts'
import { streamedByOid } from '../../../db/schema/lookup.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import type { Viewer } from '../../../db/schema/viewer.ts'
import { compile } from '../subscribe/filter.ts'
import { type Interest, interestKey, listensTo } from '../subscribe/interest.ts'
import { filterOn } from '../subscribe/wanted.ts'
import type { CallerQueue } from './caller-queue.ts'
import { type EncodedChange, EncodedChanges } from './encoded-change.ts'
import { type SecurityDeps, type Viewing, visibleTo } from './row-security.ts'
import { hasColumns, isCalled, type LoggedShape, type ShapeCache, type Shapes } from './shapes.ts'
import { BOTH, formOf, NEITHER, readSides, type Sides, type SidesByNumber, type SidesOrError } from './sides.ts'
import {
  type LoggedImages,
  matchesOf,
  type NamesByShape,
  type Numbered,
  type Survey,
  shapesWith,
  surveyTables,
  whatStays,
} from './sql.ts'
import { CHECK, isTransient, type TableChanges, tableChanges } from './table-changes.ts'

/** What a subscriber is sent, or why PostgreSQL could not say. */
export type Verdict = EncodedChanges | AppError

/** A page of the log and those who may want it: what each gets, after PostgreSQL was asked where it has to be. */
export type View = {
  /** The verdict where PostgreSQL need not be asked: no change of a wanted table, or no filter, policy or column that is cut. */
  unchecked(interest: Interest): EncodedChanges | undefined
  /** The verdict on each, after PostgreSQL was asked; none where that takes long, unless `isPatient`. */
  check(interests: readonly Interest[], isPatient: boolean): Promise<ReadonlyMap<Interest, Verdict>>
}

export type ViewDeps = SecurityDeps & {
  filters: Pick<CallerQueue, 'run'>
  log: LoggedImages
  shapes: ShapeCache
  schema: {
    read(): Schema
    /** Whether the snapshot is still what the database has, though it differs from `found`. */
    isCurrent(schema: Schema, found: string): Promise<boolean>
  }
  observe: Observe
}

/** A table of the page. `changes`: undefined when the table is gone, or when no interest listens to it. */
type Laid = { readonly key: string; readonly items: Numbered[]; table: Table | undefined; changes?: TableChanges }

/** What stays of records and of keys for a role, as JSON, by the numbers of the changes. */
type Records = ReadonlyMap<number, { readonly full: string | null; readonly key: string }>

/** What PostgreSQL answered about a table: what it did not have to be asked is undefined. */
type Sight = {
  of: Laid
  seen?: SidesByNumber | undefined
  matches?: SidesByNumber | undefined
  cut?: Records | undefined
}

const FILTER = { ...CHECK, timeoutMs: 1_000 } as const
/** The schema may change again and again while it is read: then other columns are put up with, another name is not. */
const ATTEMPTS = 5

/**
 * Lays the changes out by table, and looks up rights and row security of the tables that are listened to. They are judged
 * with a snapshot of the schema that agrees with what was found.
 */
export async function viewOf(
  deps: ViewDeps,
  changes: readonly Change[],
  interests: readonly Interest[],
): Promise<View> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const view = await layOut(deps, changes, interests, attempt > 1)
    if (view) return view
  }
  throw unavailable('the schema is changing')
}

/** Undefined when the snapshot of the schema turned out to be outdated. */
async function layOut(
  deps: ViewDeps,
  changes: readonly Change[],
  interests: readonly Interest[],
  mayHaveOtherColumns: boolean,
): Promise<View | undefined> {
  const schema = deps.schema.read()
  const laid = new Map<string, Laid>()
  const doubtful = new Set<number>()
  for (const [n, change] of changes.entries()) {
    const table = streamedByOid(schema, change.oid)
    if (!table || table.schema !== change.schema || table.name !== change.name) doubtful.add(change.oid)
    // Not the key of another table that has the name of one that is gone.
    const key = table || !schema.tables.has(interestKey(change)) ? interestKey(table ?? change) : `.${change.name}`
    const current = table ? { ...change, schema: table.schema, name: table.name } : change
    getOrCreate(laid, key, () => ({ key, items: [], table })).items.push({ n, change: current })
  }
  const isListenedTo = ({ key, table }: Laid): boolean => interests.some((one) => listensTo(one, key, table, schema))
  const heard = [...laid.values()].filter(isListenedTo)
  const oids = new Set([...doubtful, ...heard.flatMap(({ table }) => table?.oid ?? [])])
  const { survey, shapes } = await lookUp(deps, [...oids], heard)
  for (const oid of oids) {
    const [found, table] = [survey[oid], streamedByOid(schema, oid)]
    // A table that is gone is judged by none.
    const isKnown =
      found === undefined || (table && isCalled(table, found) && (mayHaveOtherColumns || hasColumns(table, found)))
    if (!isKnown && !(await deps.schema.isCurrent(schema, JSON.stringify([oid, found])))) return undefined
  }
  const onUnreadable = ({ position, name }: Change, error: unknown): void =>
    deps.observe({
      message: 'realtime: logged record is no row of its table',
      attrs: { position, table: name, error: reasonOf(error) },
    })
  for (const one of heard) {
    const { table, items } = one
    const security = table && survey[table.oid]
    if (security)
      one.changes = tableChanges({ schema, table }, items, security, {
        db: deps.db,
        log: deps.log,
        shapes,
        onUnreadable,
      })
  }
  return new BatchView(deps, schema, laid, survey)
}

type Found = { survey: Survey; shapes: Shapes }

/** The state of the tables, in one flight with the shapes that are not known yet. */
async function lookUp(deps: ViewDeps, oids: readonly number[], heard: readonly Laid[]): Promise<Found> {
  const shapes = new Map<string, LoggedShape>()
  if (oids.length === 0) return { survey: {}, shapes }
  const ids = new Set(heard.flatMap(({ items }) => items.map(({ change }) => change.shape)))
  for (const id of ids) {
    const known = deps.shapes.get(id)
    if (known) shapes.set(id, known)
  }
  const unknown = [...ids].filter((id) => !shapes.has(id))
  const ask = surveyTables(oids)
  const texts = await deps.db.fly(SYSTEM, unknown.length > 0 ? [shapesWith(unknown), ask] : [ask], {
    givesWay: true,
  })
  const found = unknown.length > 0 ? texts[0] : undefined
  for (const [id, shape] of Object.entries(JSON.parse(found ?? '{}') as Record<string, LoggedShape>)) {
    deps.shapes.set(id, shape)
    shapes.set(id, shape)
  }
  return { survey: JSON.parse(texts.at(-1) ?? '{}') as Survey, shapes }
}

class BatchView implements View {
  readonly #deps: ViewDeps
  readonly #schema: Schema
  readonly #laid: ReadonlyMap<string, Laid>
  readonly #survey: Survey
  readonly #relevant = new Map<Interest, Laid[]>()
  /** By the tables that are wanted. */
  readonly #unchecked = new Map<string, EncodedChanges>()
  /** By the number of the change, its form and, where columns are hidden, the role. */
  readonly #encoded = new Map<string, EncodedChange>()
  /** By role and table. */
  readonly #cut = new Map<string, Promise<Records>>()
  /** By role, table and filter. */
  readonly #matches = new Map<string, Promise<SidesOrError>>()

  constructor(deps: ViewDeps, schema: Schema, laid: ReadonlyMap<string, Laid>, survey: Survey) {
    this.#deps = deps
    this.#schema = schema
    this.#laid = laid
    this.#survey = survey
  }

  unchecked(interest: Interest): EncodedChanges | undefined {
    const { viewer, wanted } = interest
    const relevant = this.#relevantTo(interest)
    const mustAsk = relevant.some(
      (one) => filterOn(wanted, one.key) || isSecured(one, viewer) || cutOf(one, viewer).size > 0,
    )
    if (mustAsk) return undefined
    return getOrCreate(this.#unchecked, relevant.map(({ key }) => key).join(), () =>
      this.#compose(
        relevant.map((of) => ({ of })),
        viewer,
      ),
    )
  }

  async check(interests: readonly Interest[], isPatient: boolean): Promise<Map<Interest, Verdict>> {
    const viewings = this.#viewings(interests)
    const seen = await visibleTo(this.#deps, viewings, isPatient)
    const verdicts = new Map<Interest, Verdict>()
    for (const interest of interests) {
      const { callerKey } = interest
      if (viewings.has(callerKey) && !seen.has(callerKey)) continue
      verdicts.set(interest, this.unchecked(interest) ?? (await this.#verdict(interest, seen.get(callerKey))))
    }
    const isRaised = [...verdicts.values()].some((verdict) => verdict instanceof AppError && raisedBy(verdict))
    if (isRaised) await this.#requireSameTables()
    return verdicts
  }

  /** What a policy or filter raised says something of it only while the tables are those that were judged, not dropped or altered. */
  async #requireSameTables(): Promise<void> {
    const oids = Object.keys(this.#survey)
    const { survey } = await lookUp(this.#deps, oids.map(Number), [])
    const isSame = oids.every((oid) => JSON.stringify(survey[oid]) === JSON.stringify(this.#survey[oid]))
    if (!isSame) throw unavailable('the schema is changing')
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
      const { who, session, callerKey, payer, viewer } = interest
      for (const one of this.#relevantTo(interest)) {
        if (!one.changes || !isSecured(one, viewer)) continue
        getOrCreate(viewings, callerKey, () => ({ who, session, payer, tables: new Set() })).tables.add(one.changes)
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
      sights.push({ of, matches, seen: visible, cut: await this.#recordsFor(interest, of) })
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
  async #match({ who, viewer, payer }: Interest, text: string, changes: TableChanges): Promise<SidesOrError> {
    const { db, filters } = this.#deps
    try {
      const filter = compile(text, changes, viewer)
      const images = await changes.images()
      const { answer } = await filters.run(payer, async () => {
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

  async #recordsFor({ viewer }: Interest, of: Laid): Promise<Records | undefined> {
    const { key, table, items } = of
    const names = cutOf(of, viewer)
    if (!table || names.size === 0) return undefined
    return getOrCreate(this.#cut, `${viewer.role} ${key}`, async () => {
      const { db, log } = this.#deps
      const text = (await db.fly(SYSTEM, whatStays(log, table, items, names))) ?? '[]'
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
        if (form) made.push([n, this.#encode(of.key, { n, change }, form, cut, viewer)])
      }
    }
    return new EncodedChanges(made.sort(([a], [b]) => a - b).map(([, change]) => change))
  }

  #encode(
    key: string,
    { n, change }: Numbered,
    form: 'full' | 'key',
    cut: Records | undefined,
    viewer: Viewer,
  ): EncodedChange {
    const { position, name: table } = change
    return getOrCreate(this.#encoded, `${n} ${form} ${cut ? viewer.role : ''}`, () => {
      const action = form === 'full' ? change.action : 'delete'
      const whole = form === 'full' ? change.record : change.pk
      const record = (cut ? cut.get(n)?.[form] : whole) ?? '{}'
      return { position, key, action, table, record, bytes: new Map() }
    })
  }
}

const NOTHING: SidesByNumber = new Map()
const sidesOf = (known: SidesByNumber | undefined, n: number): Sides => (known ? (known.get(n) ?? NEITHER) : BOTH)

const isSecured = ({ changes }: Laid, { role }: Viewer): boolean => role !== 'none' && changes?.security.rls === true

/** What is told to a role of the shapes of which not all is. The operator is told everything as it was logged. */
const cutOf = ({ changes }: Laid, { role }: Viewer): NamesByShape =>
  role === 'none' || !changes ? NO_NAMES : changes.cutFor(role)
const NO_NAMES: NamesByShape = new Map()
