import { badRequest, found } from '../../core/errors.ts'
import { ANONYMOUS, databaseSession, type Identity, SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { logKeyOf } from '../../db/history/history.ts'
import { databaseMessage } from '../../db/pg-errors.ts'
import { keyIs } from '../../db/rows/keys.ts'
import { findStreamed } from '../../db/schema/lookup.ts'
import { rowAlias, rowImage, rowToWrite } from '../../db/schema/row-image.ts'
import { rowJsonb } from '../../db/schema/row-json.ts'
import type { Schema, SchemaCache, Table } from '../../db/schema/snapshot.ts'
import { catalogueExpression, type Sql, sql } from '../../db/sql.ts'
import { hiddenColumns, missingGrants } from './grants.ts'
import { CHANNELS, channelsTable } from './own-tables.ts'
import { type CheckGroup, checksFor, type PolicyCheck, type PolicyCommand, rowSecurityFor } from './policy-checks.ts'
import * as q from './sql.ts'

export type ExplainRequest = {
  table: string
  operation: PolicyCommand
  userId?: string | undefined
  claims?: { sub?: string; email?: string; aal?: string } | undefined
  id?: string | undefined
  row?: Readonly<Record<string, unknown>> | undefined
}

type CheckOutcome = true | false | null | 'error'
type CheckResult = PolicyCheck & { verdict: CheckOutcome; error?: string }

const TIMEOUT_MS = 5_000

/** Explains why a user can or cannot read or write a row. Only the policies' expressions are executed. */
export function createExplain({ db, schema: cache }: { db: Db; schema: SchemaCache }) {
  return async (admin: Identity, request: ExplainRequest) => {
    const schema = await cache.refreshIfStale()
    const isOfChannels = request.table === CHANNELS
    const table = isOfChannels
      ? await channelsTable(db)
      : found(findStreamed(schema, request.table), 'table not found', 'table_not_found')
    const who = await identityOf(db, request)
    const { role } = databaseSession(who)
    const security = await rowSecurityFor(db, table, role)
    const { policies } = security
    const rls = security.rls || isOfChannels
    const images = await imagesFor(db, admin, schema, table, request)
    const all = rls ? checksFor(request.operation, policies) : []
    const isOfFiles = table === schema.objects
    // Who sends to a channel need not be able to join it, nor who uploads to read.
    const groups = (isOfChannels || isOfFiles) && request.operation === 'insert' ? all.slice(0, 1) : all
    const results = new Map<string, CheckResult>()
    for (const check of groups.flatMap((group) => group.checks)) {
      if (!results.has(keyOf(check))) results.set(keyOf(check), await runCheck(db, who, check, images))
    }
    // Of files the server itself adds what callers may not write.
    const written = isOfFiles ? [] : Object.keys(request.row ?? {})
    const lacking = missingGrants(table, role, request.operation, written)
    const decision = decide(groups, results, rls, role, lacking)
    const hidden = hiddenColumns(table, role)
    return {
      table: `${table.schema}.${table.name}`,
      operation: request.operation,
      rlsEnabled: rls,
      ...decision,
      policies: [...results.values()].map(({ policy, part, expression, verdict, error }) => ({
        policyName: policy.name,
        command: policy.command,
        permissive: policy.permissive,
        part,
        expression,
        verdict,
        ...(error !== undefined && { error }),
      })),
      ...(lacking.length > 0 && { missingGrants: lacking }),
      ...(hidden.length > 0 && { hiddenColumns: hidden }),
      plan: { totalCost: await planCost(db, who, table) },
    }
  }
}

async function identityOf(db: Db, { userId, claims }: ExplainRequest): Promise<Identity> {
  if (userId === undefined && claims === undefined) return ANONYMOUS
  const [user] = userId === undefined ? [] : await db.rows<{ email: string }>(SYSTEM, q.emailOfUser(userId))
  return {
    kind: 'user',
    id: userId ?? claims?.sub ?? '',
    email: claims?.email ?? user?.email ?? '',
    aal: claims?.aal === 'aal2' ? 'aal2' : 'aal1',
    amr: [],
    sessionId: '',
    isAnonymous: false,
    expiresAt: 0,
  }
}

/** The current and the new row, as FROM items. */
type Images = { using: Sql; check: Sql }

async function imagesFor(
  db: Db,
  admin: Identity,
  schema: Schema,
  table: Table,
  { operation, id, row }: ExplainRequest,
): Promise<Images> {
  const given = row === undefined ? undefined : JSON.stringify(row)
  const at = { schema, table }
  if (operation === 'insert' || id === undefined) {
    if (given === undefined) throw badRequest(operation === 'insert' ? 'row is required' : 'id or row is required')
    const image = rowToWrite(at, sql`${given}::jsonb`)
    await requireRow(db, admin, image)
    return { using: image, check: image }
  }
  const now = found(await stored(db, admin, schema, table, keyParts(table, id)), 'record not found', 'record_not_found')
  const using = rowImage(at, sql`${now}::jsonb`)
  if (given === undefined) return { using, check: using }
  const check = rowToWrite(at, sql`(${now}::jsonb || ${given}::jsonb)`)
  await requireRow(db, admin, check)
  return { using, check }
}

/** Reports an invalid value once, before every policy fails on it. */
const requireRow = (db: Db, admin: Identity, image: Sql): Promise<unknown> => db.fly(admin, sql`select 1 from ${image}`)

function keyParts(table: Table, id: string): string[] {
  const { length } = table.primaryKey
  if (length === 0) throw badRequest('table has no primary key', 'no_primary_key')
  const parts = length === 1 ? [id] : id.split(',')
  if (parts.length !== length) throw badRequest(`invalid primary key: expected ${length} values`, 'invalid_key')
  return parts
}

async function stored(db: Db, admin: Identity, schema: Schema, table: Table, key: string[]): Promise<string | null> {
  const alias = rowAlias(table)
  const image = rowJsonb(schema, table, 'none', alias)
  const live = await db.fly(
    admin,
    sql`select ${image}::text from ${table.ident} as ${alias} where ${keyIs(table, alias, key)}`,
  )
  if (live !== null) return live
  // The key is made of values of the table's types, the log is the server's.
  const text = await db.fly(admin, sql`select ${logKeyOf(table, key)}`)
  return text === null ? null : db.fly(SYSTEM, q.lastImage(table, text), { kind: 'slow', timeoutMs: TIMEOUT_MS })
}

const keyOf = ({ policy, part, expression }: PolicyCheck): string => `${part} ${policy.name} ${expression}`

async function runCheck(db: Db, who: Identity, check: PolicyCheck, images: Images): Promise<CheckResult> {
  const statement = sql`select (${catalogueExpression(check.expression)})::text from ${images[check.part]}`
  try {
    const [, text] = await db.fly(who, [q.readOnly, statement], { kind: 'slow', timeoutMs: TIMEOUT_MS })
    return { ...check, verdict: text === null ? null : text === 'true' }
  } catch (error) {
    const message = databaseMessage(error)
    if (message === undefined) throw error
    return { ...check, verdict: 'error', error: message }
  }
}

type Decision = { allowed: boolean; decidedBy: string[]; reason: string }

function decide(
  groups: readonly CheckGroup[],
  results: ReadonlyMap<string, CheckResult>,
  rls: boolean,
  role: string,
  lacking: readonly string[],
): Decision {
  const denied = (reason: string, by: readonly CheckResult[] = []): Decision => ({
    allowed: false,
    decidedBy: [...new Set(by.map(({ policy }) => policy.name))],
    reason,
  })
  if (lacking.length > 0) return denied(`${role} lacks ${lacking.join(', ')}`)
  if (!rls) return { allowed: true, decidedBy: [], reason: 'row-level security is not enabled on the table' }
  const allowing: CheckResult[] = []
  for (const { part, checks } of groups) {
    const answers = checks.flatMap((check) => results.get(keyOf(check)) ?? [])
    const broken = answers.filter(({ verdict }) => verdict === 'error')
    if (broken.length > 0) return denied(`${names(broken)} ${broken.length > 1 ? 'raise' : 'raises'} an error`, broken)
    const restrictive = answers.filter(({ policy, verdict }) => !policy.permissive && verdict !== true)
    const row = part === 'using' ? 'the row' : 'the row as it would be'
    if (restrictive.length > 0) return denied(`restrictive ${names(restrictive)} does not hold on ${row}`, restrictive)
    const permissive = answers.filter(({ policy }) => policy.permissive)
    const holding = permissive.filter(({ verdict }) => verdict === true)
    if (permissive.length === 0) return denied(`no permissive policy for this applies to ${role}`)
    if (holding.length === 0) return denied(`no permissive policy holds on ${row}: ${names(permissive)}`, permissive)
    allowing.push(...holding)
  }
  return {
    allowed: true,
    decidedBy: [...new Set(allowing.map(({ policy }) => policy.name))],
    reason: `${names(allowing)} holds`,
  }
}

const names = (answers: readonly CheckResult[]): string => {
  const quoted = [...new Set(answers.map(({ policy }) => `"${policy.name}"`))]
  return `${quoted.length > 1 ? 'policies' : 'policy'} ${quoted.join(', ')}`
}

/** The planner's cost of reading the table under this identity's policies; null if it may not read it. */
async function planCost(db: Db, who: Identity, table: Table): Promise<number | null> {
  const explain = sql`explain (format json) select 1 from ${table.ident}`
  const answers = await db
    .fly(who, [q.readOnly, explain], { kind: 'slow', timeoutMs: TIMEOUT_MS })
    .catch((error: unknown) => {
      if (databaseMessage(error) === undefined) throw error
      return null
    })
  if (answers === null) return null
  const [{ Plan: plan }] = JSON.parse(answers[1] ?? '') as [{ Plan: { 'Total Cost': number } }]
  return plan['Total Cost']
}
