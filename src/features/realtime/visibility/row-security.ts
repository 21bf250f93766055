import { AppError } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import type { DatabaseRole, DatabaseSession, Identity } from '../../../core/identity.ts'
import { inParallel } from '../../../core/limits.ts'
import type { Db } from '../../../db/db.ts'
import { policyRule } from '../../../db/schema/policy-rule.ts'
import { keyFor } from '../../../db/schema/viewer.ts'
import type { Sql } from '../../../db/sql.ts'
import { NEITHER, readSides, type SidesByNumber, type SidesOrError } from './sides.ts'
import { become, planOnce, visibilityOf } from './sql.ts'
import { CHECK, isTransient, type TableChanges } from './table-changes.ts'

/** An identity, and the tables under row security of which it wants the changes. */
export type Viewing = {
  readonly who: Identity
  readonly session: DatabaseSession
  readonly tables: ReadonlySet<TableChanges>
}

/** Changes whose rows an identity did not find, though it may see their images. */
type Unseen = { readonly of: TableChanges; readonly numbers: readonly number[]; readonly seen: SidesByNumber }

/** Identities that are asked about in one flight. */
const PER_FLIGHT = 40
const PARALLEL_FLIGHTS = 2

/**
 * What each identity may see of the changes: one query per identity and table for the whole batch, many identities in
 * one flight. An identity whose policies raise gets the error; the others get their answer.
 */
export async function visibleTo<K>(db: Db, viewings: ReadonlyMap<K, Viewing>): Promise<Map<K, SidesOrError>> {
  const questions = new Map<string, Promise<Sql>>()
  const questionOn = (of: TableChanges, role: DatabaseRole): Promise<Sql> =>
    getOrCreate(questions, `${of.table.oid} ${role}`, async () => {
      const policies = policyRule(of.security.policies[role] ?? [])
      return visibilityOf(of.table, policies, await of.images(), keyFor(of.table, role).length > 0)
    })

  const answers = new Map<K, SidesOrError>()
  const unseen: Unseen[] = []
  const check = async (group: readonly [K, Viewing][]): Promise<void> => {
    const [first] = group
    if (!first) return
    const statements: [Sql, ...Sql[]] = [planOnce]
    for (const [, { session, tables }] of group) {
      statements.push(become(session))
      for (const of of tables) statements.push(await questionOn(of, session.role))
    }
    try {
      const texts = (await db.fly(first[1].who, statements, CHECK)).values()
      texts.next()
      for (const [key, { tables }] of group) {
        texts.next()
        const seen: SidesByNumber = new Map()
        for (const of of tables) {
          const numbers = readSides(texts.next().value ?? '', await of.images(), seen)
          if (numbers.length > 0) unseen.push({ of, numbers, seen })
        }
        answers.set(key, seen)
      }
    } catch (error) {
      if (!(error instanceof AppError) || isTransient(error)) throw error
      if (group.length === 1) return void answers.set(first[0], error)
      const half = Math.ceil(group.length / 2)
      await check(group.slice(0, half))
      await check(group.slice(half))
    }
  }
  await inParallel(flightsOf(viewings), PARALLEL_FLIGHTS, check)
  await judgeVanished(unseen)
  return answers
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
function flightsOf<K>(viewings: ReadonlyMap<K, Viewing>): [K, Viewing][][] {
  const flights: [K, Viewing][][] = []
  for (const role of new Set([...viewings.values()].map(({ session }) => session.role))) {
    const group = [...viewings].filter(([, { session }]) => session.role === role)
    for (let i = 0; i < group.length; i += PER_FLIGHT) flights.push(group.slice(i, i + PER_FLIGHT))
  }
  return flights
}
