import { hasScope, opensData } from '../../core/scope.ts'
import type { AuthorizationRequest } from './authorization-request.ts'
import type { Client } from './client-sql.ts'
import { refuse } from './errors.ts'
import { NO_TERMS, type Terms } from './sql.ts'

/** The most that an agent may write in an hour without the user's hand. */
const MAX_AUTO = 100
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/i

/**
 * Throws unless a request is for a resource of this server, or for none. Clients that came without the operator are agents:
 * they get no token for the API itself.
 */
export function checkResource(
  request: Pick<AuthorizationRequest, 'scope' | 'resource'>,
  client: Client,
  own: string | undefined,
): void {
  const { resource } = request
  if (resource === '') {
    if (client.origin !== 'operator') throw refuse('invalid_target', 'resource is required')
    return
  }
  if (resource !== own) throw refuse('invalid_target', 'resource is not one of this server')
  if (!opensData(request.scope) || hasScope(request.scope, 'openid')) {
    throw refuse('invalid_scope', 'agents are granted data, and no ID token')
  }
}

/** `auto`, `release` and `until` of a consent. */
export function termsOfBody(body: unknown, { resource }: AuthorizationRequest): Terms {
  const given = body as Readonly<Record<string, unknown>>
  const [auto, release, until] = [given['auto'] ?? null, given['release'] ?? false, given['until'] ?? null]
  if (auto === null && release === false && until === null) return NO_TERMS
  if (resource === '') throw refuse('invalid_request', 'auto, release and until are for agents')
  if (typeof release !== 'boolean') throw refuse('invalid_request', 'release must be a boolean')
  if (auto !== null && !isCount(auto)) throw refuse('invalid_request', `auto must be an integer from 0 to ${MAX_AUTO}`)
  if (auto !== null && release) throw refuse('invalid_request', 'auto and release exclude each other')
  return { auto, release, until: until === null ? null : endOf(until) }
}

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MAX_AUTO

function endOf(value: unknown): string {
  const at = typeof value === 'string' && RFC3339.test(value) ? Date.parse(value) : Number.NaN
  if (Number.isNaN(at)) throw refuse('invalid_request', 'until must be an RFC 3339 time')
  if (at <= Date.now()) throw refuse('invalid_request', 'until must be in the future')
  return new Date(at).toJSON()
}
