import type { Config } from '../config/config.ts'
import type { Peers } from '../core/peers.ts'
import { version } from '../core/version.ts'
import { DryRuns } from '../db/history/dry-run.ts'
import { createAdvisor } from '../features/advisor/routes.ts'
import { Confirmations } from '../features/agents/confirm.ts'
import { ForeignText } from '../features/agents/foreign-text.ts'
import { GuardedWrites } from '../features/agents/guarded-write.ts'
import { llmsRoute } from '../features/agents/llms.ts'
import { Marks } from '../features/agents/marks.ts'
import { operatorRoute } from '../features/agents/operator/routes.ts'
import { OperatorTools } from '../features/agents/operator/tools.ts'
import { createAgents } from '../features/agents/routes.ts'
import { ToolRoutes } from '../features/agents/tool-call.ts'
import { Tools } from '../features/agents/tools.ts'
import { Trail } from '../features/agents/trail.ts'
import { Writes } from '../features/agents/writes.ts'
import type { DataGroup } from './data.ts'
import type { IdentityGroup } from './identity.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Platform } from './platform.ts'

/** Agents: the routes of data on connections of their own, and writes that are looked at before they are committed. */
export async function createAgentsGroup(
  config: Config,
  platform: Platform,
  identity: IdentityGroup,
  data: DataGroup,
  lifecycle: Lifecycle,
  askAllWorkers: Peers,
) {
  const { db: own, schema, changeLog, logKey: key, publicUrl, observe } = platform
  const db = config.agents.enabled ? lifecycle.own(await platform.openAgentPool()) : own
  const expected = new GuardedWrites()
  const routes = new ToolRoutes(data.routesOn(db, expected))
  const marks = new Marks(own)
  const hasQuarantine = config.agents.quarantine
  const dryRuns = new DryRuns({ db, schema, key })
  const confirmations = new Confirmations(identity.keyFor('agents'))
  const writes = new Writes({
    ...{ db, own, schema, key, dryRuns, routes, expected, confirmations, hasQuarantine },
    foreignText: new ForeignText(own, marks),
    log: changeLog,
  })
  const publicBaseUrl = (): string => publicUrl.get()
  const origins = new Set(config.server.cors_origins)
  const agents = createAgents({
    ...{ own, schema, routes, writes, marks, hasQuarantine, publicBaseUrl, version, observe },
    tools: new Tools(routes.at('GET /api/collections/{table}')),
    trail: new Trail(own, observe),
    appName: config.server.app_name,
    accountUrl: () => `${publicBaseUrl()}/account`,
    identify: identity.identifyAgent,
    allowsOrigin: (origin) => origins.has('*') || origins.has(origin),
    isEnabled: config.agents.enabled,
    hasOAuthServer: config.auth.oauth_provider.enabled,
  })
  const { schemas } = config.api
  const advisor = createAdvisor({ db: own, schema, schemas, askAllWorkers })
  const operator = new OperatorTools({
    db: own,
    schemas,
    advise: advisor.advise,
    logs: async () => (await identity.logsOfAll()).flat().sort((a, b) => (a.time < b.time ? -1 : 1)),
    observe,
    appName: config.server.app_name,
    version,
  })
  const llms = llmsRoute({
    schema,
    appName: config.server.app_name,
    publicBaseUrl,
    hasAgents: config.agents.enabled,
    visitorsSeeSchema: config.api.anonymous !== 'none',
  })
  const operators = {
    routes: [operatorRoute({ tools: operator, isEnabled: config.agents.admin, publicBaseUrl }), llms],
  }
  return { features: [agents, advisor, operators] }
}
