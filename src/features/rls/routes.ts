import { AppError, badRequest } from '../../core/errors.ts'
import { isOwner } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Db } from '../../db/db.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import type { Feature } from '../../http/feature.ts'
import { requireFreshFactor } from '../../http/guard.ts'
import { json, jsonText, noContentAfter, type Route, route } from '../../http/route.ts'
import { accessMatrix } from './access-matrix.ts'
import { createCompare } from './compare.ts'
import { createExplain } from './explain.ts'
import { createPolicies } from './policies.ts'

const policy = t.object({
  tableSchema: t.string(),
  tableName: t.string(),
  policyName: t.string(),
  command: t.oneOf(['ALL', 'SELECT', 'INSERT', 'UPDATE', 'DELETE']),
  permissive: t.oneOf(['PERMISSIVE', 'RESTRICTIVE']),
  roles: t.array(t.string(), { description: 'empty = PUBLIC' }),
  usingExpr: t.nullable(t.string()),
  withCheckExpr: t.nullable(t.string()),
})

const newPolicy = t.object({
  table: t.string(),
  name: t.string(),
  schema: t.optional(t.string({ description: 'default: the first exposed schema that has the table' })),
  command: t.optional(t.string({ description: 'ALL (default), SELECT, INSERT, UPDATE or DELETE' })),
  permissive: t.optional(t.boolean({ description: 'default true' })),
  roles: t.optional(t.array(t.string())),
  using: t.optional(t.string({ description: 'SQL expression' })),
  withCheck: t.optional(t.string({ description: 'SQL expression' })),
})

const question = t.object({
  table: t.string(),
  operation: t.string({ description: 'select, insert, update or delete' }),
  user_id: t.optional(t.uuid()),
  claims: t.optional(
    t.object({ sub: t.optional(t.string()), email: t.optional(t.string()), aal: t.optional(t.string()) }),
  ),
  id: t.optional(t.union(t.string(), t.number())),
  row: t.optional(t.record(t.any(), { description: 'the new row, or the changes to the row with this id' })),
})

const explanation = t.object({
  table: t.string(),
  operation: t.oneOf(['select', 'insert', 'update', 'delete']),
  rlsEnabled: t.boolean(),
  allowed: t.boolean(),
  policies: t.array(
    t.object({
      policyName: t.string(),
      command: t.string(),
      permissive: t.boolean(),
      part: t.oneOf(['using', 'check'], { description: 'the row as it is, or as it would be' }),
      expression: t.string(),
      verdict: t.union(t.nullable(t.boolean()), t.oneOf(['error'])),
      error: t.optional(t.string()),
    }),
  ),
  decidedBy: t.array(t.string()),
  reason: t.string(),
  missingGrants: t.optional(t.array(t.string())),
  hiddenColumns: t.optional(t.array(t.string())),
  plan: t.object({ totalCost: t.nullable(t.number()) }),
})

const comparison = t.object({
  table: t.string(),
  replaces: t.optional(t.string({ description: 'the name of the policy that goes' })),
  policy: t.optional(
    t.object({
      name: t.string(),
      command: t.optional(t.string({ description: 'ALL (default), SELECT, INSERT, UPDATE or DELETE' })),
      permissive: t.optional(t.boolean({ description: 'default true' })),
      roles: t.optional(t.array(t.string())),
      using: t.optional(t.string({ description: 'SQL expression' })),
      withCheck: t.optional(t.string({ description: 'SQL expression' })),
    }),
  ),
  users: t.optional(t.array(t.string(), { description: 'ids or addresses; a visitor is always among them' })),
  operations: t.optional(t.array(t.string(), { description: 'default select' })),
})

const compared = t.object({
  table: t.string(),
  rows: t.integer({ description: 'of the table, by primary key, that were looked at' }),
  effects: t.array(
    t.object({
      user: t.nullable(t.string({ description: 'null: a visitor' })),
      operation: t.oneOf(['select', 'insert', 'update', 'delete']),
      gains: t.array(t.string(), { description: 'keys, the first 50' }),
      loses: t.array(t.string()),
      gained: t.integer(),
      lost: t.integer(),
      error: t.optional(t.string({ description: 'what PostgreSQL says of the candidate' })),
    }),
  ),
})

const message = t.object({ message: t.string() })
/** Of a snapshot, which asks every table once for each. */
const MAX_USERS = 20
const OPERATIONS = ['select', 'insert', 'update', 'delete'] as const

function operationNamed(text: string): (typeof OPERATIONS)[number] {
  const operation = OPERATIONS.find((name) => name === text.toLowerCase())
  if (!operation) throw badRequest(`operation must be one of: ${OPERATIONS.join(', ')}`)
  return operation
}

export function createRls(deps: { db: Db; schema: SchemaCache; schemas: readonly string[] }): Feature {
  const { db, schema, schemas } = deps
  const policies = createPolicies({ db, schemas, changed: async () => void (await schema.reload()) })
  const explain = createExplain({ db, schema })
  const compare = createCompare({ db, schema })

  const switchTo = (action: 'enable' | 'disable'): Route =>
    route(`POST /api/admin/rls/{table}/${action}`, {
      summary: `Switch row-level security ${action === 'enable' ? 'on' : 'off'}`,
      leastRole: 'operator',
      auth: 'admin',
      audit: `rls.${action}`,
      bodyKind: 'none',
      answers: { 200: message },
      handle: async (call) => {
        await policies.switch(call.params.table, action, call)
        return json(200, { message: `RLS ${action}d on ${call.params.table}` })
      },
    })

  const routes = [
    route('GET /api/admin/rls', {
      summary: 'All policies of the exposed tables',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: t.array(policy) },
      handle: async () => jsonText(200, await policies.all()),
    }),
    route('POST /api/admin/rls', {
      summary: 'Create a policy',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'rls_policy.create',
      body: newPolicy,
      answers: { 201: message },
      handle: async (call) => {
        await policies.create(call.body, call)
        return json(201, { message: 'policy created' })
      },
    }),
    route('POST /api/admin/rls/explain', {
      summary: 'Why somebody can or cannot see or write a row',
      leastRole: 'operator',
      auth: 'admin',
      // It changes nothing, but is audited because it reveals what another user can access.
      audit: 'rls.explain',
      readsToo: true,
      body: question,
      answers: { 200: explanation },
      handle: async ({ who, body }) => {
        const operation = operationNamed(body.operation)
        if (body.user_id !== undefined && body.claims !== undefined) throw badRequest('choose one of user_id, claims')
        if (body.claims !== undefined && !isOwner(who))
          throw new AppError('insufficient_role', 'claims need the role owner')
        if (body.claims !== undefined) requireFreshFactor(who)
        const { table, user_id: userId, claims, row } = body
        const id = body.id === undefined ? undefined : String(body.id)
        const answer = await explain(who, { table, operation, userId, claims, id, row })
        return { ...json(200, answer), audit: { target: answer.table } }
      },
    }),
    route('POST /api/admin/rls/compare', {
      summary: 'Who would gain and who would lose which rows by a policy; nothing is changed',
      auth: 'admin',
      audit: 'rls.compare',
      readsToo: true,
      body: comparison,
      answers: { 200: compared },
      handle: async ({ who, body }) => {
        const { table, replaces, policy: candidate, users = [] } = body
        if (candidate === undefined && replaces === undefined) throw badRequest('policy or replaces is required')
        if (users.length > MAX_USERS) throw badRequest(`too many users: max ${MAX_USERS}`)
        const operations = [...new Set(body.operations ?? ['select'])].map(operationNamed)
        const answer = await compare(who, { table, replaces, policy: candidate, users, operations })
        return { ...json(200, answer), audit: { target: answer.table, newValues: body } }
      },
    }),
    route('POST /api/admin/rls/snapshot', {
      summary: 'Who may do what with a sample of every table, as text for version control',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'rls.snapshot',
      readsToo: true,
      body: t.object({
        users: t.optional(t.array(t.string(), { description: 'ids or addresses; default the oldest' })),
      }),
      answers: { 200: t.object({ snapshot: t.string() }) },
      handle: async ({ body }) => {
        if ((body.users?.length ?? 0) > MAX_USERS) throw badRequest(`too many users: max ${MAX_USERS}`)
        const snapshot = await accessMatrix(db, schema.read(), body.users)
        return { ...json(200, { snapshot }), audit: { target: 'all tables', newValues: body } }
      },
    }),
    route('GET /api/admin/rls/{table}', {
      summary: 'The policies of a table',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: t.array(policy) },
      handle: async ({ params }) => jsonText(200, await policies.of(params.table)),
    }),
    route('GET /api/admin/rls/{table}/status', {
      summary: 'Whether row-level security is on',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: t.object({ rlsEnabled: t.boolean(), forceRls: t.boolean() }) },
      handle: async ({ params }) => jsonText(200, await policies.status(params.table)),
    }),
    switchTo('enable'),
    switchTo('disable'),
    route('DELETE /api/admin/rls/{table}/{policy}', {
      summary: 'Drop a policy',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'rls_policy.delete',
      answers: { 204: null },
      handle: (call) => noContentAfter(policies.drop(call.params.table, call.params.policy, call)),
    }),
  ]
  return { routes }
}
