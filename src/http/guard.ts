import { AppError, hasStatus, notFound, unauthorized } from '../core/errors.ts'
import { ADMIN_ROLES, ANONYMOUS, type Identity, impersonationOf, writeRefusal } from '../core/identity.ts'
import type { Grant } from '../core/scope.ts'
import type { Auth, Call, Route } from './route.ts'

export type Identify = (bearer: string) => Identity | Promise<Identity>

/** What callers without a bearer may do on data routes (those that keys may use). */
export type AnonymousAccess = 'all' | 'read' | 'none'

const MISSING = 'missing or invalid authorization header'

/**
 * The token of `Authorization: Bearer …` (RFC 6750 §2.1; the scheme is case-insensitive), or of the URL on routes that
 * accept it; if both are given they must be equal. No cookie is a bearer.
 */
export function bearerOf(header: string | undefined, inQuery?: string): string | undefined {
  if (header === undefined) return inQuery
  const token = /^bearer +(\S+)$/i.exec(header)?.[1]
  if (token === undefined) throw unauthorized(MISSING)
  if (inQuery !== undefined && inQuery !== token) throw unauthorized('invalid or expired token', 'invalid_token')
  return token
}

/** For work that a body took long to arrive for: throws when the bearer is good no more. */
export async function requireStillKnown(identify: Identify, { headers }: Pick<Call, 'headers'>): Promise<void> {
  const bearer = bearerOf(headers['authorization'])
  if (bearer !== undefined) await identify(bearer)
}

/** Identifies the caller by the bearer; `admit` checks what the caller may do. */
export function identifyCaller(
  auth: Auth,
  authorization: string | undefined,
  /** The token in the URL, on routes that accept one. */
  inQuery: string | undefined,
  identify: Identify,
): Identity | Promise<Identity> {
  if (auth === 'none' || auth === 'own') return ANONYMOUS
  if (auth === 'admin') return adminOnly(authorization, identify)
  const bearer = bearerOf(authorization, inQuery)
  if (bearer !== undefined) return identify(bearer)
  if (auth === 'optional' || auth === 'lenient' || auth === 'anonymous-user') return ANONYMOUS
  throw unauthorized(MISSING)
}

/** Admin routes answer every other caller with the same error, so that they reveal nothing about a token. */
async function adminOnly(authorization: string | undefined, identify: Identify): Promise<Identity> {
  try {
    const bearer = bearerOf(authorization)
    if (bearer !== undefined) return await identify(bearer)
  } catch (error) {
    // 403: a token that opens no data.
    if (!hasStatus(error, 401) && !hasStatus(error, 403)) throw error
  }
  throw unauthorized('admin authentication required', 'admin_required')
}

/** Throws unless the route admits this identity. Default deny: every admitted case is listed. */
export function admit(route: Route, who: Identity, visitors: AnonymousAccess): void {
  if (route.auth !== 'none' && route.auth !== 'admin') admitImpersonation(route, who)
  switch (route.auth) {
    case 'none':
    case 'own':
    case 'anonymous-user':
      return
    case 'admin':
      if (who.kind !== 'admin') throw unauthorized('admin authentication required', 'admin_required')
      admitAdmin(route, who)
      return
    case 'optional':
    case 'lenient':
      if (who.kind === 'anonymous') admitVisitor(route, visitors)
      if (who.kind === 'anonymous' || who.kind === 'user') return
      if (who.kind !== 'admin') break
      admitAdmin(route, who)
      return
    case 'user':
      if (who.kind === 'user') return
      break
    case 'mfa':
      if (who.kind === 'mfa') return
      if (who.kind === 'user') throw unauthorized('no MFA challenge pending', 'mfa_required')
      break
    case 'user-or-mfa':
      if (who.kind === 'user' || who.kind === 'mfa') return
      break
  }
  if (who.kind !== 'key' || route.auth === 'mfa') throw refusal(who)
  admitKey(route, who.grant)
}

function admitImpersonation({ impersonable, access, readsToo }: Route, who: Identity): void {
  const impersonation = impersonationOf(who)
  if (impersonation === undefined) return
  if (!impersonable) throw new AppError('forbidden', 'an impersonation cannot be used here')
  if (access === 'write' && !impersonation.write && !readsToo) throw writeRefusal(who)
}

type Admin = Extract<Identity, { kind: 'admin' }>

function admitAdmin({ leastRole = 'owner', enrols, freshFactor }: Route, who: Admin): void {
  if (ADMIN_ROLES.indexOf(who.role) < ADMIN_ROLES.indexOf(leastRole))
    throw new AppError('insufficient_role', `this needs the role ${leastRole} of an administrator`)
  if (who.mustEnrol && !enrols) throw unauthorized('enrol a second factor first', 'mfa_required')
  if (freshFactor) requireFreshFactor(who)
}

const FRESH_SECONDS = 600

/** Of administrators who have a second factor. */
export function requireFreshFactor(who: Identity): void {
  if (who.kind !== 'admin' || who.secondFactorAt === undefined) return
  if (Date.now() / 1000 - who.secondFactorAt <= FRESH_SECONDS) return
  throw new AppError('insufficient_aal', 'sign in again: the second factor was more than ten minutes ago')
}

function admitVisitor({ access, openToVisitors }: Route, visitors: AnonymousAccess): void {
  if (visitors === 'all' || access === 'none' || openToVisitors) return
  if (visitors === 'none' || access === 'write') throw unauthorized(MISSING)
}

function admitKey(route: Route, grant: Grant): void {
  if (route.access === 'none') throw new AppError('insufficient_scope', 'API keys cannot be used here')
  const { tables, files } = grant
  const isWrite = route.access === 'write'
  if (route.files && tables.length > 0 && !(isWrite ? files.write : files.read)) {
    throw new AppError('insufficient_scope', 'api key does not have access to files')
  }
  if (isWrite && !(route.files ? files.write : grant.scope !== 'readonly')) {
    throw new AppError('insufficient_scope', 'api key scope does not permit write operations')
  }
}

function refusal(who: Identity): AppError {
  switch (who.kind) {
    case 'mfa':
      return unauthorized('MFA verification required', 'mfa_required')
    case 'key':
      return new AppError('insufficient_scope', 'API keys cannot be used here')
    case 'anonymous':
      return unauthorized(MISSING)
    default:
      return unauthorized('not authenticated')
  }
}

/** Without auth there are no users, so routes that need one answer 404. */
export const needsUser = (auth: Auth): boolean => auth === 'user' || auth === 'mfa' || auth === 'user-or-mfa'
export const authDisabled = (): AppError => notFound('auth is not enabled', 'feature_disabled')
