import { AppError, badRequest, found } from '../../core/errors.ts'
import { ANONYMOUS, databaseSession, type Identity, SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { findStreamed } from '../../db/schema/lookup.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { requireExpression } from './expression.ts'
import { checksFor, groupExpression, type PolicyCommand, rowSecurityFor } from './policy-checks.ts'
import { allowedRows, type SampleRow, sampleOf, sampleUser } from './sample.ts'
import * as q from './sql.ts'

type Candidate = {
  name: string
  command?: string
  permissive?: boolean
  /** Empty = PUBLIC. */
  roles?: readonly string[]
  using?: string
  withCheck?: string
}

type CompareRequest = {
  table: string
  /** The name of the policy that goes. */
  replaces?: string | undefined
  policy?: Candidate | undefined
  users: readonly string[]
  operations: readonly PolicyCommand[]
}

type Effect = {
  user: string | null
  operation: PolicyCommand
  gains: string[]
  loses: string[]
  gained: number
  lost: number
  error?: string
}

const SAMPLE = 1_000
/** Keys that are named of each; the rest is counted. */
const NAMED = 50
/** One budget for all identities and operations. */
const BUDGET_MS = 20_000
const COMMANDS = ['ALL', 'SELECT', 'INSERT', 'UPDATE', 'DELETE'] as const

/** Who gains and who loses which rows by a policy that is not there yet. Its expressions are evaluated: no DDL, no lock. */
export function createCompare({ db, schema: cache }: { db: Db; schema: SchemaCache }) {
  return async (admin: Identity, request: CompareRequest) => {
    const deadline = performance.now() + BUDGET_MS
    const schema = await cache.refreshIfStale()
    const table = found(findStreamed(schema, request.table), 'table not found', 'table_not_found')
    if (table.primaryKey.length === 0) throw badRequest('table has no primary key', 'no_primary_key')
    const command = commandOf(request.policy)
    await requireExpression(db, admin, request.policy?.using, 'USING')
    await requireExpression(db, admin, request.policy?.withCheck, 'WITH CHECK')
    const rows = await sampleOf(db, schema, table, SAMPLE)
    const subjects: [string | null, Identity][] = [[null, ANONYMOUS]]
    for (const user of request.users) subjects.push([user, await sampleUser(db, user)])
    const effects: Effect[] = []
    for (const [user, who] of subjects) {
      const { role } = databaseSession(who)
      const now = await rowSecurityFor(db, table, role)
      const next = await candidates(db, now.policies, request, role, command)
      for (const operation of request.operations) {
        const allowed = (policies: readonly q.StoredPolicy[] | undefined) => {
          const left = deadline - performance.now()
          if (left <= 0) throw new AppError('timeout', 'comparing takes too long: name fewer users or operations')
          return allowedRows(db, who, { schema, table }, rows, groupsOf(operation, policies), left)
        }
        const before = await allowed(now.rls ? now.policies : undefined)
        const after = await allowed(next)
        effects.push({ user, operation, ...difference(rows, before, after) })
      }
    }
    return { table: `${table.schema}.${table.name}`, rows: rows.length, effects }
  }
}

/** undefined: row security is off. */
const groupsOf = (operation: PolicyCommand, policies: readonly q.StoredPolicy[] | undefined): Sql[] =>
  policies === undefined ? [sql`true`] : checksFor(operation, policies).map(groupExpression)

function commandOf(policy: Candidate | undefined): q.PolicyCommandRow {
  const command = COMMANDS.find((one) => one === (policy?.command ?? 'ALL').toUpperCase())
  if (!command) throw badRequest(`command must be one of: ${COMMANDS.join(', ')}`)
  return command
}

/** The policies of a role as they would be. */
async function candidates(
  db: Db,
  policies: readonly q.StoredPolicy[],
  { policy, replaces }: CompareRequest,
  role: string,
  command: q.PolicyCommandRow,
): Promise<q.StoredPolicy[]> {
  const others = policies.filter(({ name }) => name !== replaces)
  if (!policy || !(await holdsFor(db, policy.roles ?? [], role))) return others
  const { name, permissive = true, using = null, withCheck = null } = policy
  // What CREATE POLICY would refuse counts for nothing here either.
  const made = {
    name,
    command,
    permissive,
    using: command === 'INSERT' ? null : using,
    check: command === 'SELECT' || command === 'DELETE' ? null : withCheck,
  }
  return [...others, made]
}

async function holdsFor(db: Db, roles: readonly string[], role: string): Promise<boolean> {
  if (roles.length === 0 || roles.some((name) => name.toLowerCase() === 'public')) return true
  const isAny = await db.fly(SYSTEM, q.isMemberOfAny(role, roles))
  return isAny === 'true'
}

type Outcome = readonly number[] | { error: string }

function difference(rows: readonly SampleRow[], before: Outcome, after: Outcome): Omit<Effect, 'user' | 'operation'> {
  const had = new Set('error' in before ? [] : before)
  const has = new Set('error' in after ? [] : after)
  const ids = (places: number[]): string[] => places.slice(0, NAMED).map((place) => rows[place]?.id ?? '')
  const gained = [...has].filter((place) => !had.has(place))
  const lost = [...had].filter((place) => !has.has(place))
  return {
    gains: ids(gained),
    loses: ids(lost),
    gained: gained.length,
    lost: lost.length,
    ...('error' in after && { error: after.error }),
  }
}
