import { AppError } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import { SYSTEM } from '../../../core/identity.ts'
import { inParallel } from '../../../core/limits.ts'
import { changesBetween } from '../../../db/changes/sql.ts'
import type { Db } from '../../../db/db.ts'
import { failedStatement } from '../../../db/pg-errors.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import { type CallerQueue, QUICK_MS } from '../visibility/caller-queue.ts'
import { become, planOnce } from '../visibility/sql.ts'
import { CHECK, isTransient } from '../visibility/table-changes.ts'
import type { LiveGroup } from './group.ts'
import type { Inquiry } from './table-watch.ts'

/** Questions in one flight. */
const PER_FLIGHT = 40
const PARALLEL_FLIGHTS = 2

/** The keys that rows had before these updates, where they were others. */
const keysBefore = ({ oid, primaryKey }: Table, ids: readonly string[]): Sql => {
  const key = primaryKey.map(({ name }) => name)
  return sql`select coalesce(json_agg(u.was), '[]')::text from (
    select v.key, svc.key_of(v.old_record, ${key}::text[]) as was
    from unnest(${ids}::bigint[]) as i(id) join (${changesBetween(ids[0] ?? '0', ids.at(-1) ?? '0', { oid })}) v on v.id = i.id
    where v.action = 'update'
  ) u where u.was is distinct from u.key and u.was is not null`
}

export const readKeysBefore = async (db: Db, table: Table, updates: readonly string[]): Promise<string[]> =>
  JSON.parse((await db.fly(SYSTEM, keysBefore(table, updates))) ?? '[]') as string[]

/** Groups whose answer to a question is the same. */
type Question = { readonly groups: LiveGroup[]; readonly first: LiveGroup; readonly question: Sql }

/**
 * Which groups have one of the rows among those that they choose from: one question for each caller and filter, many of them
 * in one flight. Where PostgreSQL does not say in time, or fails, all of that flight are.
 */
export async function concerned(
  { db, budget }: { db: Db; budget: Pick<CallerQueue, 'isSlow' | 'spend'> },
  { keys, groups }: Pick<Inquiry, 'keys' | 'groups'>,
): Promise<LiveGroup[]> {
  const found: LiveGroup[] = []
  const questions = new Map<string, Question>()
  const rows = `[${keys.join(',')}]`
  for (const group of groups) {
    const { own } = group.plan ?? {}
    if (!own || budget.isSlow(group.payer)) found.push(group)
    else {
      const key = JSON.stringify([group.callerKey, own.question])
      getOrCreate(questions, key, () => ({ groups: [], first: group, question: own.concerns(rows) })).groups.push(group)
    }
  }
  await inParallel(flightsOf([...questions.values()]), PARALLEL_FLIGHTS, async (flight) => {
    const [one] = flight
    if (!one) return
    const statements = flight.flatMap(({ first, question }) => [become(first.session), question])
    try {
      const texts = await db.fly(one.first.who, [planOnce, ...statements], { ...CHECK, timeoutMs: QUICK_MS })
      for (const [i, { groups }] of flight.entries()) if (texts[2 * i + 2] !== 'false') found.push(...groups)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      const culprit = flight[Math.floor(((failedStatement(error) ?? 0) - 1) / 2)]
      if (culprit && !isTransient(error)) budget.spend(culprit.first.payer, QUICK_MS)
      for (const { groups } of flight) found.push(...groups)
    }
  })
  return found
}

/** One role per flight, because a flight runs under one role. */
function flightsOf(questions: readonly Question[]): Question[][] {
  const flights: Question[][] = []
  for (const role of new Set(questions.map(({ first }) => first.session.role))) {
    const group = questions.filter(({ first }) => first.session.role === role)
    for (let i = 0; i < group.length; i += PER_FLIGHT) flights.push(group.slice(i, i + PER_FLIGHT))
  }
  return flights
}
