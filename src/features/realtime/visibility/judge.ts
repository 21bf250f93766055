import { sleep } from '../../../core/clock.ts'
import { AppError, reasonOf } from '../../../core/errors.ts'
import type { DatabaseRole } from '../../../core/identity.ts'
import type { Semaphore } from '../../../core/limits.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Change } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import { columnsFor } from '../../../db/schema/viewer.ts'
import { type FilterBudget, restAfter, TIMED_OUT_MS, tooDear } from '../filter-budget.ts'
import { ToldChange } from '../told-change.ts'
import { compile, type Interest, keyOf, listensTo } from './interest.ts'
import type { Numbered } from './sql.ts'
import {
  BOTH,
  isTransient,
  matchesFor,
  NEITHER,
  type Records,
  recordsWithout,
  type Sides,
  survey,
  type TableBatch,
  type Viewing,
  type Visible,
  visibleTo,
} from './visible.ts'
import { filterOn } from './wanted.ts'

export type Frame = { readonly n: number; readonly told: ToldChange }
/** What a subscriber is sent, or why it cannot be told. */
export type Verdict = readonly Frame[] | AppError

/** A batch of the change log, laid out by table and with row security looked up; the verdicts on it are asked in steps. */
export type Judged = {
  /** Has this subscriber an answer without asking the database again? */
  isFree(interest: Interest): boolean
  concerns(interest: Interest): boolean
  free(interest: Interest): readonly Frame[]
  checked(interests: readonly Interest[]): Promise<Map<Interest, Verdict>>
}

type Known = { key: string; items: Numbered[]; table: Table | undefined }

export type JudgeDeps = {
  db: Db
  observe: Observe
  /** What the filters of a subscriber cost the database. */
  budget: Pick<FilterBudget, 'spend' | 'isSpent'>
  /** Where filters wait for each other. */
  turns: Pick<Semaphore, 'run'>
}

/** What these interests may hear of the changes. Of a table that none of them listens to nothing is asked. */
export async function judge(
  { db, observe, budget, turns }: JudgeDeps,
  schema: Schema,
  changes: readonly Change[],
  interests: readonly Interest[],
): Promise<Judged> {
  const unreadable = ({ position, name }: Change, error: unknown): void =>
    observe({
      level: 'warn',
      message: 'realtime: logged record is no row of its table',
      attrs: { position, table: name, error: reasonOf(error) },
    })
  const byTable = tablesOf(schema, changes)
  const isHeard = ({ key, table }: Known): boolean => interests.some((one) => listensTo(one, key, table, schema))
  const heard = [...byTable.values()].flatMap((known) => (known.table && isHeard(known) ? known.table : []))
  const state = await survey(db, heard)
  const batches = new Map<string, TableBatch>()
  for (const { key, items, table } of byTable.values()) {
    const known = table && state[table.oid]
    if (table && known) batches.set(key, { unreadable, schema, table, items, ...known })
  }

  const frames = new Map<string, Frame>()
  const shared = new Map<string, readonly Frame[]>()
  const hiddenOf = (table: Table | undefined, role: DatabaseRole): readonly string[] => {
    if (!table || role === 'none') return []
    const visible = new Set(columnsFor(table, role).map((column) => column.name))
    return visible.size === table.columns.size ? [] : [...table.columns.keys()].filter((name) => !visible.has(name))
  }
  const relevant = (interest: Interest): Known[] =>
    [...byTable.values()].filter(
      ({ key, table }) =>
        // A table that is gone has no policies to ask; only those who are never asked still hear of it.
        (interest.viewer.role === 'none' || batches.has(key)) && listensTo(interest, key, table, schema),
    )
  const needsCheck = (interest: Interest, key: string): boolean =>
    interest.viewer.role !== 'none' && batches.get(key)?.rls === true
  const isFree = (interest: Interest): boolean =>
    relevant(interest).every(
      ({ key, table }) =>
        filterOn(interest.wanted, key) === undefined &&
        !needsCheck(interest, key) &&
        hiddenOf(table, interest.viewer.role).length === 0,
    )

  function frameOf({ n, change }: Numbered, form: 'full' | 'key', view: string, records: Records): Frame {
    const key = `${n} ${form} ${view}`
    const made = frames.get(key)
    if (made) return made
    const action = form === 'full' ? change.action : 'delete'
    const record = form === 'full' ? (records.full.get(n) ?? change.record ?? '{}') : (records.key.get(n) ?? change.pk)
    const frame = { n, told: new ToldChange(change.position, action, change.name, record) }
    frames.set(key, frame)
    return frame
  }

  function compose(
    interest: Interest,
    seen: (key: string, n: number) => Sides,
    match: (key: string, n: number) => Sides,
    records: (key: string) => { view: string; records: Records },
  ): Frame[] {
    const made: Frame[] = []
    for (const { key, items } of relevant(interest)) {
      const { view, records: texts } = records(key)
      for (const item of items) {
        const form = formOf(item.change.action, seen(key, item.n), match(key, item.n))
        if (form) made.push(frameOf(item, form, view, texts))
      }
    }
    return made.sort((a, b) => a.n - b.n)
  }

  const always = (): Sides => BOTH
  return {
    isFree,
    concerns: (interest) => relevant(interest).length > 0,

    free(interest) {
      const key = relevant(interest)
        .map((known) => known.key)
        .join(',')
      const known = shared.get(key)
      if (known) return known
      const made = compose(interest, always, always, () => UNCUT)
      shared.set(key, made)
      return made
    },

    async checked(interests) {
      const records = await cutRecords(db, interests, relevant, hiddenOf)
      const matches = await matchesOfAll({ db, budget, turns }, schema, interests, batches)
      const visible = await visibleTo(db, viewingsOf(interests, relevant, needsCheck, batches))
      return new Map(
        interests.map((interest): [Interest, Verdict] => {
          const seen = visible.get(interest.sessionKey)
          const matched = (key: string): Visible | undefined => matches.get(filterKey(interest, key))
          const failed =
            failure(seen) ??
            relevant(interest)
              .map(({ key }) => failure(matched(key)))
              .find(Boolean)
          if (failed) return [interest, failed]
          return [
            interest,
            compose(
              interest,
              (key, n) => (needsCheck(interest, key) ? (sideOf(seen, n) ?? NEITHER) : BOTH),
              (key, n) => (filterOn(interest.wanted, key) === undefined ? BOTH : (sideOf(matched(key), n) ?? NEITHER)),
              (key) => records.get(`${interest.viewer.role} ${key}`) ?? UNCUT,
            ),
          ]
        }),
      )
    },
  }
}

const failure = (found: Visible | undefined): AppError | undefined => (found instanceof Map ? undefined : found)
const sideOf = (found: Visible | undefined, n: number): Sides | undefined =>
  found instanceof Map ? found.get(n) : undefined

/** Whether and how a change is told: a row that the subscriber sees no more is gone as far as it is concerned. */
export function formOf(action: Change['action'], seen: Sides, match: Sides): 'full' | 'key' | undefined {
  if (action === 'create') return seen.now && match.now ? 'full' : undefined
  if (action === 'delete') return seen.old && match.old ? 'key' : undefined
  // A match on an old row that the subscriber could not see would tell what that row held.
  if (seen.now) return match.now || (match.old && seen.old) ? 'full' : undefined
  return seen.old && match.old ? 'key' : undefined
}

function tablesOf(schema: Schema, changes: readonly Change[]): Map<string, Known> {
  const byTable = new Map<string, Known>()
  for (const [n, change] of changes.entries()) {
    const key = keyOf(change)
    const known = byTable.get(key) ?? { key, items: [], table: schema.tables.get(key) }
    known.items.push({ n, change })
    byTable.set(key, known)
  }
  return byTable
}

const NO_RECORDS: Records = { full: new Map(), key: new Map() }
const UNCUT = { view: '', records: NO_RECORDS }

async function cutRecords(
  db: Db,
  interests: readonly Interest[],
  relevant: (interest: Interest) => Known[],
  hiddenOf: (table: Table | undefined, role: DatabaseRole) => readonly string[],
): Promise<Map<string, { view: string; records: Records }>> {
  const cut = new Map<string, { view: string; records: Records }>()
  for (const interest of interests) {
    const { role } = interest.viewer
    for (const { key, table, items } of relevant(interest)) {
      const hidden = hiddenOf(table, role)
      if (!table || hidden.length === 0 || cut.has(`${role} ${key}`)) continue
      cut.set(`${role} ${key}`, { view: role, records: await recordsWithout(db, table, items, hidden) })
    }
  }
  return cut
}

const filterKey = ({ viewer, wanted }: Interest, table: string): string =>
  JSON.stringify([viewer.role, table, filterOn(wanted, table)])

async function matchesOfAll(
  deps: Pick<JudgeDeps, 'db' | 'budget' | 'turns'>,
  schema: Schema,
  interests: readonly Interest[],
  batches: ReadonlyMap<string, TableBatch>,
): Promise<Map<string, Visible>> {
  const found = new Map<string, Visible>()
  for (const interest of interests) {
    for (const [table, batch] of batches) {
      const filter = filterOn(interest.wanted, table)
      const key = filterKey(interest, table)
      if (filter === undefined || found.has(key)) continue
      const { matches, ms } = await deps.turns.run(() => tryMatches(deps, schema, interest, filter, batch))
      found.set(key, matches)
      const rest = restAfter(ms)
      if (rest > 0) await sleep(rest)
    }
  }
  return found
}

/**
 * A filter whose column is gone meanwhile, or that takes too long, ends its own streams, nobody else's. The budget is looked
 * at and spent within its turn: of many streams that wait at once, the later ones know what the earlier ones took.
 */
async function tryMatches(
  { db, budget }: Pick<JudgeDeps, 'db' | 'budget'>,
  schema: Schema,
  interest: Interest,
  filter: string,
  batch: TableBatch,
): Promise<{ matches: Visible; ms: number }> {
  const { who, viewer, sessionKey } = interest
  if (budget.isSpent(sessionKey)) return { matches: tooDear(), ms: 0 }
  try {
    const judged = await matchesFor(db, who, batch, compile(filter, batch.table, { schema, viewer }))
    budget.spend(sessionKey, judged.ms)
    return judged
  } catch (error) {
    if (!(error instanceof AppError) || isTransient(error)) throw error
    if (error.kind !== 'timeout') return { matches: error, ms: 0 }
    budget.spend(sessionKey, TIMED_OUT_MS)
    return { matches: tooDear(), ms: 0 }
  }
}

function viewingsOf(
  interests: readonly Interest[],
  relevant: (interest: Interest) => Known[],
  needsCheck: (interest: Interest, key: string) => boolean,
  batches: ReadonlyMap<string, TableBatch>,
): Viewing[] {
  const viewings = new Map<string, Viewing & { keys: Set<string> }>()
  for (const interest of interests) {
    for (const { key } of relevant(interest)) {
      const batch = batches.get(key)
      if (!batch || !needsCheck(interest, key)) continue
      const { who, session, sessionKey } = interest
      const viewing = viewings.get(sessionKey) ?? { key: sessionKey, who, session, tables: [], keys: new Set() }
      viewings.set(sessionKey, viewing)
      if (!viewing.keys.has(key)) viewing.tables.push(batch)
      viewing.keys.add(key)
    }
  }
  return [...viewings.values()]
}
