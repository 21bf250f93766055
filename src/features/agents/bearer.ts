import { AppError, badRequest, hasStatus } from '../../core/errors.ts'
import { bearerOf, type Identify } from '../../http/guard.ts'
import type { Call } from '../../http/route.ts'
import type { KeyIdentity } from './agent.ts'

export type BearerDeps = {
  /** Knows tokens of agents, the admin's, and API keys where they are allowed. */
  identify: Identify
  publicBaseUrl: () => string
  allowsOrigin: (origin: string) => boolean
}

const METADATA_PATH = '/.well-known/oauth-protected-resource'
export const MCP_PATH = '/api/mcp'

/** `read_only` is the only parameter of the address: a mistyped one must never mean read-write. */
export function isReadOnlyAddress({ query, repeated }: Pick<Call, 'query' | 'repeated'>): boolean {
  const [twice] = repeated
  if (twice !== undefined) throw badRequest(`${twice.slice(0, 100)} is given more than once`)
  const strange = Object.keys(query).find((name) => name !== 'read_only')
  if (strange !== undefined) throw badRequest(`unknown parameter: ${strange.slice(0, 100)}`)
  const value = query['read_only']
  if (value !== undefined && value !== 'true' && value !== 'false') throw badRequest('read_only must be true or false')
  return value === 'true'
}

/** The agent of a request; every other caller is told where tokens come from (RFC 9728, section 5.1). */
export async function identifyAgent(deps: BearerDeps, call: Call): Promise<KeyIdentity> {
  const { origin, authorization } = call.headers
  if (origin !== undefined && origin !== new URL(deps.publicBaseUrl()).origin && !deps.allowsOrigin(origin)) {
    throw new AppError('origin_not_allowed', 'origin not allowed')
  }
  const isReadOnly = isReadOnlyAddress(call)
  const who = await bearerIdentity(deps, authorization, isReadOnly)
  if (who.kind === 'admin') {
    throw new AppError(
      'forbidden',
      'the admin token does not work here: agents work as a user, so that what they may do is what the user may do',
    )
  }
  if (who.kind !== 'key' || who.userId === null || who.impersonation !== undefined)
    throw challenge(deps, isReadOnly, true)
  return who
}

async function bearerIdentity(deps: BearerDeps, authorization: string | undefined, isReadOnly: boolean) {
  try {
    const bearer = bearerOf(authorization)
    if (bearer !== undefined) return await deps.identify(bearer)
  } catch (error) {
    if (!hasStatus(error, 401)) throw error
    throw challenge(deps, isReadOnly, true)
  }
  throw challenge(deps, isReadOnly, false)
}

/** Names one scope: clients ask for all that they are told of. */
function challenge({ publicBaseUrl }: BearerDeps, isReadOnly: boolean, isBad: boolean): AppError {
  const parts = [
    ...(isBad ? ['error="invalid_token"'] : []),
    `resource_metadata="${publicBaseUrl()}${METADATA_PATH}${MCP_PATH}"`,
    `scope="${isReadOnly ? 'readonly' : 'readwrite'}"`,
  ]
  const headers = { 'WWW-Authenticate': `Bearer ${parts.join(', ')}` }
  return isBad
    ? new AppError('invalid_token', 'invalid or expired token', { headers })
    : new AppError('unauthorized', 'missing or invalid authorization header', { headers })
}
