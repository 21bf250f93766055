import { AppError } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import { CALLER_SETTINGS, SYSTEM } from '../../../core/identity.ts'
import { inParallel } from '../../../core/limits.ts'
import { changesBetween } from '../../../db/changes/sql.ts'
import type { Db } from '../../../db/db.ts'
import { failedStatement } from '../../../db/pg-errors.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import { join, type Sql, sql } from '../../../db/sql.ts'
import { type CallerQueue, QUICK_MS } from '../visibility/caller-queue.ts'
import { become, planOnce } from '../visibility/sql.ts'
import { CHECK, isTransient } from '../visibility/table-changes.ts'
import type { LiveGroup } from './group.ts'
import type { Inquiry } from './table-watch.ts'

/** In the order in which svc.ask_callers() takes them. */
const CALLER_FIELDS = Object.keys(CALLER_SETTINGS) as (keyof typeof CALLER_SETTINGS)[]
/** Callers whose question is one statement, and those who have one each in a flight. */
const PER_STATEMENT = 200
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

type Deps = { db: Db; budget: Pick<CallerQueue, 'isSlow' | 'spend'> }

/**
 * Which groups have one of the rows among those that they choose from: one question for each caller and filter. Callers with the
 * same question are asked about in one statement; where that fails, or takes long, each has its own.
 */
export async function concerned(
  { db, budget }: Deps,
  { keys, groups }: Pick<Inquiry, 'keys' | 'groups'>,
): Promise<LiveGroup[]> {
  const found: LiveGroup[] = []
  /** By role and statement, then by caller. */
  const alike = new Map<string, Map<string, Question>>()
  const rows = `[${keys.join(',')}]`
  for (const group of groups) {
    const { own } = group.plan ?? {}
    if (!own || budget.isSlow(group.payer)) found.push(group)
    else {
      const question = own.concerns(rows)
      const callers = getOrCreate(
        alike,
        [group.session.role, own.question, question.render().text].join('\n'),
        () => new Map(),
      )
      const make = (): Question => ({ groups: [], first: group, question })
      getOrCreate<string, Question>(callers, group.callerKey, make).groups.push(group)
    }
  }
  const parts = [...alike.values()].flatMap((callers) => partsOf([...callers.values()], PER_STATEMENT))
  const single: Question[] = parts.filter(({ length }) => length === 1).flat()
  await inParallel(
    parts.filter(({ length }) => length > 1),
    PARALLEL_FLIGHTS,
    async (part) => {
      const answers = await askTogether(db, part)
      if (answers) for (const [i, { groups }] of part.entries()) found.push(...(answers[i] === '0' ? [] : groups))
      else single.push(...part)
    },
  )
  const roles = [...new Set(single.map(({ first }) => first.session.role))]
  // A flight runs under one role.
  const flights = roles.flatMap((role) =>
    partsOf(
      single.filter(({ first }) => first.session.role === role),
      PER_FLIGHT,
    ),
  )
  await inParallel(flights, PARALLEL_FLIGHTS, async (flight) => {
    found.push(...(await askEach({ db, budget }, flight)))
  })
  return found
}

/** A character for each, `0` for no. Undefined when one of them fails, or all together take too long. */
async function askTogether(db: Db, part: readonly Question[]): Promise<string | undefined> {
  const [one] = part
  if (!one) return ''
  const { text, values } = one.question.render()
  const sessions = part.map(({ first: { session } }) => CALLER_FIELDS.map((field) => session[field]))
  const given = join(values.map((value) => sql`${value}::text`))
  const statement = sql`select svc.ask_callers(${text}, array[${given}]::text[], ${JSON.stringify(sessions)}::pg_catalog.jsonb)`
  try {
    const answers = await db.fly(one.first.who, statement, { ...CHECK, timeoutMs: QUICK_MS })
    return answers?.length === part.length ? answers : undefined
  } catch (error) {
    if (error instanceof AppError && !isTransient(error)) return undefined
    throw error
  }
}

/** As many statements as there are questions. Where PostgreSQL does not say in time, or fails, all of the flight are concerned. */
async function askEach({ db, budget }: Deps, flight: readonly Question[]): Promise<LiveGroup[]> {
  const [one] = flight
  if (!one) return []
  const statements = flight.flatMap(({ first, question }) => [become(first.session), question])
  try {
    const texts = await db.fly(one.first.who, [planOnce, ...statements], { ...CHECK, timeoutMs: QUICK_MS })
    return flight.flatMap(({ groups }, i) => (texts[2 * i + 2] === 'false' ? [] : groups))
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const culprit = flight[Math.floor(((failedStatement(error) ?? 0) - 1) / 2)]
    if (culprit && !isTransient(error)) budget.spend(culprit.first.payer, QUICK_MS)
    return flight.flatMap(({ groups }) => groups)
  }
}

function partsOf<T>(all: readonly T[], size: number): T[][] {
  const parts: T[][] = []
  for (let i = 0; i < all.length; i += size) parts.push(all.slice(i, i + size))
  return parts
}
