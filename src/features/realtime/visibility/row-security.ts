import { AppError, hasStatus } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import type { DatabaseRole, DatabaseSession, Identity } from '../../../core/identity.ts'
import { inParallel } from '../../../core/limits.ts'
import type { Db } from '../../../db/db.ts'
import { failedStatement } from '../../../db/pg-errors.ts'
import { policyRule } from '../../../db/schema/policy-rule.ts'
import { keyFor } from '../../../db/schema/viewer.ts'
import type { Sql } from '../../../db/sql.ts'
import { type CallerQueue, QUICK_MS } from './caller-queue.ts'
import { NEITHER, readSides, type SidesByNumber, type SidesOrError } from './sides.ts'
import { become, planOnce, theTime, visibilityOf } from './sql.ts'
import { CHECK, isTransient, type TableChanges } from './table-changes.ts'

/** A caller, and the tables under row security of which it wants the changes. */
export type Viewing = {
  readonly who: Identity
  readonly session: DatabaseSession
  /** On whom the time of the check is counted. */
  readonly payer: string
  readonly tables: ReadonlySet<TableChanges>
}

export type SecurityDeps = { readonly db: Db; readonly policies: Pick<CallerQueue, 'isSlow' | 'spend' | 'ask'> }

/** Changes whose rows a caller did not find, though it may see their images. */
type Unseen = { readonly of: TableChanges; readonly numbers: readonly number[]; readonly seen: SidesByNumber }

/** Callers that are asked about in one flight. */
const PER_FLIGHT = 40
const PARALLEL_FLIGHTS = 2
/** After this many slow callers in one page, the others of their flights are asked about alone too. */
const MAX_SLOW = 3
/** Who takes this long, and many times as long as most of its flight, is asked about alone from then on. */
const EXPENSIVE_MS = 50
const TIMES_MEDIAN = 8

/**
 * What each caller may see of the changes: one query per caller and table for the whole batch, many callers in one flight.
 * A caller whose policies raise gets the error; the others get their answer. A caller whose policies are slow has none
 * unless `isPatient`: then each is asked about alone, at its own expense.
 */
export async function visibleTo<K>(
  { db, policies }: SecurityDeps,
  viewings: ReadonlyMap<K, Viewing>,
  isPatient: boolean,
): Promise<Map<K, SidesOrError>> {
  type Asked = readonly [K, Viewing]
  const questions = new Map<string, Promise<Sql>>()
  const questionOn = (of: TableChanges, role: DatabaseRole): Promise<Sql> =>
    getOrCreate(questions, `${of.table.oid} ${role}`, async () => {
      const rule = policyRule(of.security.policies[role] ?? [])
      return visibilityOf(of.table, rule, await of.images(), keyFor(of.table, role).length > 0)
    })
  const answers = new Map<K, SidesOrError>()
  const unseen: Unseen[] = []

  /** Asks about all of them in one flight, and returns the milliseconds that each took. */
  async function fly(group: readonly Asked[], timeoutMs: number): Promise<number[]> {
    const statements: [Sql, ...Sql[]] = [planOnce]
    for (const [, { session, tables }] of group) {
      statements.push(become(session))
      for (const of of tables) statements.push(await questionOn(of, session.role))
    }
    statements.push(theTime)
    const who = group[0]?.[1].who as Identity
    const texts = (await db.fly(who, statements, { ...CHECK, timeoutMs })).values()
    texts.next()
    const times: number[] = []
    for (const [key, { tables }] of group) {
      times.push(Number(texts.next().value))
      const seen: SidesByNumber = new Map()
      for (const of of tables) {
        const numbers = readSides(texts.next().value ?? '', await of.images(), seen)
        if (numbers.length > 0) unseen.push({ of, numbers, seen })
      }
      answers.set(key, seen)
    }
    const ends = [...times.slice(1), Number(texts.next().value)]
    return times.map((time, i) => (ends[i] ?? time) - time)
  }

  let slow = 0
  async function checkTogether(group: readonly Asked[]): Promise<void> {
    if (group.length === 0) return
    try {
      for (const [i, ms] of excessive(await fly(group, QUICK_MS))) policies.spend(group[i]?.[1].payer ?? '', ms)
    } catch (error) {
      const at = culprit(group, error)
      const [key, viewing] = group[at] ?? []
      if (!(error instanceof AppError) || isTransient(error)) throw error
      if (key === undefined || !viewing) {
        if (hasStatus(error, 504)) return
        throw error
      }
      if (hasStatus(error, 504)) {
        policies.spend(viewing.payer, QUICK_MS)
        if (++slow > MAX_SLOW) return
      } else answers.set(key, error)
      await checkTogether(group.slice(0, at))
      await checkTogether(group.slice(at + 1))
    }
  }

  async function checkAlone([key, viewing]: Asked): Promise<void> {
    try {
      await policies.ask(viewing.payer, async (timeoutMs) => ({ ms: (await fly([[key, viewing]], timeoutMs))[0] ?? 0 }))
    } catch (error) {
      if (!(error instanceof AppError) || isTransient(error)) throw error
      answers.set(key, error)
    }
  }

  if (isPatient) await Promise.all([...viewings].map(checkAlone))
  else {
    const quick = [...viewings].filter(([, { payer }]) => !policies.isSlow(payer))
    await inParallel(flightsOf(quick), PARALLEL_FLIGHTS, checkTogether)
  }
  await judgeVanished(unseen)
  return answers
}

/** The member of the group whose statement failed. */
function culprit<K>(group: readonly (readonly [K, Viewing])[], error: unknown): number {
  const failed = failedStatement(error) ?? -1
  // The first statement is that of the flight; each member has one more than tables.
  let next = 1
  return group.findIndex(([, { tables }]) => {
    next += 1 + tables.size
    return failed > 0 && failed < next
  })
}

/** Those that took many times as long as the others, and the time. */
function excessive(times: readonly number[]): [index: number, ms: number][] {
  const median = [...times].sort((a, b) => a - b)[Math.floor((times.length - 1) / 2)] ?? 0
  const limit = Math.max(EXPENSIVE_MS, TIMES_MEDIAN * median)
  return [...times.entries()].filter(([, ms]) => ms >= limit)
}

/** Of rows that have gone since the images were read, the image decides, as if they had been gone then. */
async function judgeVanished(unseen: readonly Unseen[]): Promise<void> {
  for (const of of new Set(unseen.map((each) => each.of))) {
    const here = unseen.filter((each) => each.of === of)
    const numbers = new Set(here.flatMap((each) => each.numbers))
    const { gone } = await of.readImages(of.items.filter(({ n }) => numbers.has(n)))
    const isGone = new Set(gone.numbers)
    for (const { seen, numbers } of here) {
      for (const n of numbers) if (isGone.has(n)) seen.set(n, { ...(seen.get(n) ?? NEITHER), now: true })
    }
  }
}

/** One role per flight, because a flight runs under one role. */
function flightsOf<K>(viewings: readonly (readonly [K, Viewing])[]): (readonly [K, Viewing])[][] {
  const flights: (readonly [K, Viewing])[][] = []
  for (const role of new Set(viewings.map(([, { session }]) => session.role))) {
    const group = viewings.filter(([, { session }]) => session.role === role)
    for (let i = 0; i < group.length; i += PER_FLIGHT) flights.push(group.slice(i, i + PER_FLIGHT))
  }
  return flights
}
