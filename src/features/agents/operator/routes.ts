import { AppError, badRequest, notFound } from '../../../core/errors.ts'
import type { Identity } from '../../../core/identity.ts'
import * as t from '../../../core/json-type.ts'
import { type Call, type Route, requireEnabled, route } from '../../../http/route.ts'
import { answerMessage } from '../protocol.ts'
import type { OperatorTools } from './tools.ts'

export type OperatorRouteDeps = { tools: OperatorTools; isEnabled: boolean; publicBaseUrl: () => string }

const FRESH_SECONDS = 600

/** The operator's own agent. Off unless `agents.admin`. */
export const operatorRoute = ({ tools, isEnabled, publicBaseUrl }: OperatorRouteDeps): Route =>
  route('POST /api/admin/mcp', {
    summary: 'The Model Context Protocol for the operator: read, explain, advise, preview',
    auth: 'admin',
    audit: 'agent.operator',
    requires: requireEnabled(isEnabled, () =>
      notFound('the tools of the operator are not enabled', 'feature_disabled'),
    ),
    bodyLimit: 256 * 1024,
    accepts: t.row,
    answers: { 200: t.row, 202: null, 400: t.row, 404: t.row },
    handle: async (call) => {
      requireOwnAddress(call, publicBaseUrl())
      requireSecondProof(call.who)
      const [name] = Object.keys(call.query)
      if (name !== undefined) throw badRequest(`unknown parameter: ${name.slice(0, 100)}`)
      let note: { tool: string; sql?: string } | undefined
      const server = tools.server((tool, args) => {
        const text = args['query'] ?? args['sql']
        note = { tool, ...(typeof text === 'string' && { sql: text.slice(0, 2_000) }) }
      })
      const reply = await answerMessage(server, call.who, call)
      return { ...reply, audit: { target: note?.tool ?? 'protocol', ...(note && { newValues: note }) } }
    },
  })

/** A page of another place, or a name that only resolves here, must not reach what a browser on this machine could. */
function requireOwnAddress({ headers }: Pick<Call, 'headers'>, base: string): void {
  const own = new URL(base)
  const { host, origin } = headers
  if (host !== own.host) throw new AppError('forbidden', 'this host name is not that of server.public_base_url')
  if (origin !== undefined && origin !== own.origin) throw new AppError('origin_not_allowed', 'origin not allowed')
}

/** A second factor within ten minutes, or the token that only this machine's files hold. */
function requireSecondProof(who: Identity): void {
  if (who.kind !== 'admin') throw new TypeError('the guard admits administrators')
  if (who.isMachine) return
  if (who.secondFactorAt !== undefined && Date.now() / 1000 - who.secondFactorAt <= FRESH_SECONDS) return
  throw new AppError(
    'insufficient_aal',
    'this needs a second factor within ten minutes, or svc mcp --admin on the machine of the server',
  )
}
