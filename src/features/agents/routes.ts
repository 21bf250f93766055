import { entryCache } from '../../core/entry-cache.ts'
import { notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { parseKeepingDigits } from '../../core/json-digits.ts'
import * as t from '../../core/json-type.ts'
import type { Feature } from '../../http/feature.ts'
import { type Call, json, type Route, requireEnabled, route } from '../../http/route.ts'
import { type Agent, agentOf, clientOf, type KeyIdentity } from './agent.ts'
import { type BearerDeps, identifyAgent, isReadOnlyAddress, MCP_PATH } from './bearer.ts'
import { type OwnRoutesDeps, ownRoutes } from './own-routes.ts'
import { answerMessage } from './protocol.ts'
import { findAgent, makeAgent } from './sql.ts'
import { Turns } from './turns.ts'
import { Workbench, type WorkbenchDeps } from './workbench.ts'

export type AgentsDeps = BearerDeps &
  Omit<WorkbenchDeps, 'turns'> &
  Pick<OwnRoutesDeps, 'writes'> & {
    /** agents.enabled */
    isEnabled: boolean
    /** auth.oauth_provider.enabled: agents get their tokens here. */
    hasOAuthServer: boolean
  }

/** Ids of agents that this process knows, for a while: those that no grant needs any more are forgotten. */
const MAX_KNOWN = 10_000
const KNOWN_MS = 60_000
/** A message with a row in it; more is for imports. */
const MAX_MESSAGE = 1024 * 1024

const metadata = t.object({
  resource: t.string(),
  authorization_servers: t.array(t.string()),
  bearer_methods_supported: t.array(t.string()),
  resource_name: t.string(),
})

/** PostgreSQL takes the text of a long number as the number; the message's own id stays what it is. */
function messageOf({ body, bodyText }: Pick<Call, 'body' | 'bodyText'>): unknown {
  const kept = bodyText === '' ? body : parseKeepingDigits(bodyText)
  if (typeof kept !== 'object' || kept === null || !('id' in kept)) return kept
  return { ...kept, id: (body as { id: unknown }).id }
}

/** Agents at work as their user: the Model Context Protocol, and what the user decides about it. */
export function createAgents(deps: AgentsDeps): Feature {
  const { own, publicBaseUrl, isEnabled } = deps
  const requires = requireEnabled(isEnabled, () => notFound('agents are not enabled', 'feature_disabled'))
  const resource = (): string => `${publicBaseUrl()}${MCP_PATH}`
  const turns = new Turns()
  const known = entryCache<string>(MAX_KNOWN, { ttl: KNOWN_MS })

  async function agentFor(who: KeyIdentity): Promise<Agent> {
    const userId = who.userId ?? ''
    const { client, clientId } = clientOf(who)
    const key = `${userId} ${client}`
    const id =
      known.get(key) ??
      (await own.fly(SYSTEM, findAgent(userId, client))) ??
      (await own.fly(SYSTEM, makeAgent(userId, client, clientId))) ??
      ''
    known.set(key, id)
    return agentOf(id, who, userId, resource())
  }

  /** RFC 9728: at the root, and at the place of the resource. */
  const aboutResource = {
    summary: 'Where agents get their tokens (RFC 9728)',
    auth: 'none',
    anyOrigin: true,
    requires,
    answers: { 200: metadata },
    handle: () =>
      json(200, {
        resource: resource(),
        authorization_servers: deps.hasOAuthServer ? [publicBaseUrl()] : [],
        bearer_methods_supported: ['header'],
        resource_name: deps.appName,
      }),
  } as const

  const routes: Route[] = [
    route('POST /api/mcp', {
      summary: 'The Model Context Protocol, as the user of the token',
      auth: 'own',
      requires,
      identify: (call) => {
        requires()
        return identifyAgent(deps, call)
      },
      limit: 'agents',
      bodyLimit: MAX_MESSAGE,
      accepts: t.row,
      answers: { 200: t.row, 202: null, 400: t.row, 404: t.row },
      handle: async (call) => {
        const agent = await agentFor(call.who as KeyIdentity)
        const isReadOnly = isReadOnlyAddress(call)
        const { ip, requestId, signal: cancelSignal } = call
        const bench = new Workbench({ ...deps, turns }, { agent, isReadOnly, ip, requestId, cancelSignal })
        return answerMessage(bench, call.who, { body: messageOf(call), headers: call.headers })
      },
    }),
    route('GET /.well-known/oauth-protected-resource', aboutResource),
    route('GET /.well-known/oauth-protected-resource/api/mcp', aboutResource),
    ...ownRoutes({ db: own, writes: deps.writes, requires, resource }),
  ]
  return { routes, stop: () => deps.trail.flush() }
}
