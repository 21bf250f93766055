import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { type Identity, ON_BEHALF, type UserIdentity, userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { grantOf } from '../../core/scope.ts'
import type { Db, Tx } from '../../db/db.ts'
import { json, jsonText, noContent, type Route, route } from '../../http/route.ts'
import { requireOwnFactor } from '../../identity/second-factor.ts'
import { lockCaller } from '../../identity/users.ts'
import { type Agent, agentOf, type KeyIdentity } from './agent.ts'
import * as q from './sql.ts'
import { deadline } from './tool-call.ts'
import type { Args, ToolName } from './tools.ts'
import type { Writes } from './writes.ts'

export type OwnRoutesDeps = { db: Db; writes: Writes; requires: () => void; resource: () => string }

const counts = t.record(t.any(), { description: '{table: {create, update, delete}}' })
const pendingInList = t.object({ id: t.uuid(), tool: t.string(), counts })
const RELEASE_MS = 10_000

/** What a user sees and decides of their agents, with a session of their own. */
export function ownRoutes({ db, writes, requires, resource }: OwnRoutesDeps): Route[] {
  const own = { auth: 'user', requires } as const
  return [
    route('GET /api/auth/agents', {
      summary: 'Agents of the user, and their writes that wait',
      ...own,
      answers: {
        200: t.array(
          t.object({ id: t.uuid(), client_id: t.string(), quarantined: t.boolean(), pending: t.array(pendingInList) }),
        ),
      },
      handle: async ({ who }) => jsonText(200, (await db.fly(ON_BEHALF, q.agentsOf(personOf(who).id))) ?? '[]'),
    }),
    route('POST /api/auth/agents/{id}/release', {
      summary: 'End the quarantine of an agent',
      ...own,
      bodyKind: 'none',
      params: { id: t.id('agent') },
      answers: { 204: null },
      handle: async ({ who, params }) => {
        const user = personOf(who)
        await db.tx(ON_BEHALF, async (tx) => {
          await proven(tx, user)
          if ((await tx.run(q.endQuarantine(params.id, user.id))) === 0)
            throw notFound('agent not found', 'agent_not_found')
        })
        return noContent
      },
    }),
    route('GET /api/auth/agents/pending/{id}', {
      summary: 'A write that waits for the user, with its whole difference',
      ...own,
      params: { id: t.id('pending write') },
      answers: {
        200: t.object({
          id: t.uuid(),
          tool: t.string(),
          client_id: t.string(),
          counts,
          changes: t.array(t.row),
          expires_at: t.time(),
        }),
      },
      handle: async ({ who, params }) => {
        const shown = await db.fly(ON_BEHALF, q.showPending(params.id, personOf(who).id))
        if (shown === null) throw noPending()
        return jsonText(200, shown)
      },
    }),
    route('POST /api/auth/agents/pending/{id}', {
      summary: 'Release a write that waits, or drop it',
      ...own,
      params: { id: t.id('pending write') },
      body: t.object({ decision: t.oneOf(['approve', 'deny'], { refusal: 'decision must be approve or deny' }) }),
      answers: { 200: t.object({ request_id: t.string() }), 204: null },
      handle: async ({ who, params, body, ip, cancelSignal }) => {
        const user = personOf(who)
        const isDenied = body.decision === 'deny'
        const pending = await db.tx(ON_BEHALF, async (tx) => {
          await proven(tx, user)
          if (isDenied) {
            if ((await tx.run(q.dropAgentPending(params.id, user.id))) === 0) throw noPending()
            return undefined
          }
          const [found] = await tx.rows<q.Pending>(q.findPending(params.id, user.id))
          if (!found) throw noPending()
          return found
        })
        if (!pending) return noContent
        const agent = agentOfPending(pending, user, resource())
        const until = deadline(cancelSignal, RELEASE_MS)
        try {
          const intent = { released: { id: pending.id, digest: pending.digest } }
          const args = JSON.parse(pending.args) as Args
          const context = { agent, ip, signal: until.signal }
          const outcome = await writes.run(context, pending.tool as ToolName, args, intent).catch(asChanged)
          if (outcome.kind !== 'done') throw changed()
          return json(200, { request_id: outcome.requestId })
        } finally {
          until.end()
        }
      },
    }),
  ]
}

const noPending = (): AppError => notFound('pending write not found', 'pending_not_found')
const changed = (): AppError => new AppError('conflict', 'the write would do something else now')

/** What the agent may no longer do is a change, not the user's mistake. */
function asChanged(error: unknown): never {
  if (error instanceof AppError && error.status >= 400 && error.status < 500 && error.status !== 409) {
    throw new AppError('conflict', `the write is no longer possible: ${error.message}`, { cause: error })
  }
  throw error
}

async function proven(tx: Tx, user: UserIdentity): Promise<void> {
  await lockCaller(tx, user)
  await requireOwnFactor(tx, user)
}

/** As the agent is now: its grant may have ended or changed since. */
function agentOfPending(pending: q.Pending, user: UserIdentity, resource: string): Agent {
  const { scope, tables, appId, keyId, grantId, email, client, clientId } = pending
  if (scope === null) throw new AppError('conflict', 'the access of this agent has ended')
  const who: KeyIdentity = {
    kind: 'key',
    via: grantId === null ? 'api_key' : 'oauth',
    keyId,
    userId: user.id,
    email,
    grant: grantOf(scope, tables, appId),
    expiresAt: null,
    ...(grantId !== null && { grantId, agent: { client, clientId, auto: null, release: false, resource } }),
  }
  if (who.grant.scope === 'readonly') throw new AppError('conflict', 'the access of this agent is read only now')
  return agentOf(pending.agentId, who, user.id, resource)
}

/** Anonymous accounts cannot agree to agents. */
function personOf(who: Identity): UserIdentity {
  const user = userOf(who)
  if (user.isAnonymous) throw badRequest('anonymous accounts have no agents')
  return user
}
