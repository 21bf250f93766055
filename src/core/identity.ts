import { AppError, unauthorized } from './errors.ts'
import type { Grant } from './scope.ts'

/** What an administrator may do, least first: read; everything but what is the owner's alone; everything. */
export const ADMIN_ROLES = ['viewer', 'operator', 'owner'] as const
export type AdminRole = (typeof ADMIN_ROLES)[number]

/** Of a token by which an administrator acts as another caller; it ends with the administrator's own. */
export type Impersonation = {
  readonly id: string
  readonly adminTokenId: string
  /** Undefined for the shared password. */
  readonly adminId?: string
  /** The administrator's address; `admin` for the shared password. */
  readonly by: string
  readonly write: boolean
  /** Unix seconds. */
  readonly expiresAt: number
}

/** The caller of a request. Made only by features/auth/identify.ts; used by the route guard and by db.fly. */
export type Identity =
  | { kind: 'anonymous'; impersonation?: Impersonation }
  | {
      kind: 'user'
      id: string
      email: string
      aal: 'aal1' | 'aal2'
      amr: readonly string[]
      sessionId: string
      isAnonymous: boolean
      /** The active organisation, as the token claims it; policies see it while the user is a member. */
      org?: string
      /** Further claims as JSON, of an impersonation. */
      claims?: string
      impersonation?: Impersonation
      /** Unix seconds at which the token that carried this identity expires. */
      expiresAt: number
    }
  /** First factor passed, second factor pending: valid only for MFA challenge, verify and factor listing. */
  | { kind: 'mfa'; id: string; email: string; amr: readonly string[]; pendingId: string; expiresAt: number }
  /** API key, OAuth token, or token of another issuer; `userId` is null for OAuth client credentials. */
  | {
      kind: 'key'
      via: 'api_key' | 'oauth' | 'issuer'
      keyId: string
      /** What the tokens of an OAuth grant have in common; undefined for API keys. */
      grantId?: string
      userId: string | null
      email: string
      grant: Grant
      impersonation?: Impersonation
      /** The organisation of an API key; policies see it while the user is a member. */
      org?: string
      /** Unix seconds; null = does not expire. */
      expiresAt: number | null
      /** An agent's token: good for its resource and nowhere else. */
      agent?: AgentTerms
      /** What another issuer says: how the caller signed in there, and its claims as JSON. */
      aal?: 'aal1' | 'aal2'
      claims?: string
    }
  /**
   * An administrator's token: a login that reads all rows and, unless it is a viewer's, writes them. `email`: undefined for the
   * shared password.
   */
  | {
      kind: 'admin'
      tokenId: string
      role: AdminRole
      adminId?: string
      email?: string
      /** Unix seconds of the second factor; undefined where none is enrolled. */
      secondFactorAt?: number
      /** The token that this machine's files hold, for the command line. */
      isMachine?: true
      /** A second factor is required and has to be enrolled before anything else. */
      mustEnrol?: true
      /** Signed in from a dashboard that may write only while it is unlocked. */
      isLockable?: true
      /** Set for a request of such a dashboard while it is locked. */
      isLocked?: true
      /** What the owner does as the server's own role: policies, and functions under a role of the owner's choice. */
      asServer?: true
      expiresAt: number
    }
  /**
   * The server itself: its own tables and background work. `callers`: what callers cause, which gives way to the server's own.
   * `data`: tables of users, whose code never runs as the server's own role; on the search path of requests. `hooks`: the
   * operator's hook functions, as a role of theirs on the login of callers.
   */
  | { kind: 'system'; for?: 'callers' | 'data' | 'hooks' }

/** What a user agreed to for an agent. */
export type AgentTerms = {
  /** The client: an id of the server's own, and the one that it is known by. */
  readonly client: string
  readonly clientId: string
  /** Rows an hour that need no second step; null: every write has two. */
  readonly auto: number | null
  /** Every write waits for the user's own hand. */
  readonly release: boolean
  readonly resource: string
}

export const ANONYMOUS: Identity = { kind: 'anonymous' }
export const SYSTEM: Identity = { kind: 'system' }
/** As SYSTEM, for what callers cause at routes without a table of their own: files, sites, OAuth. */
export const ON_BEHALF: Identity = { kind: 'system', for: 'callers' }
/** As SYSTEM, on tables of users: their triggers, defaults and types may be code of anyone who made them. */
export const ON_DATA: Identity = { kind: 'system', for: 'data' }

/** Hook functions: code of the operator's. */
export const ON_HOOKS: Identity = { kind: 'system', for: 'hooks' }

/** The server, at work for a caller; for the operator as for itself. */
export const onBehalfOf = (who: Identity): Identity => (who.kind === 'admin' ? SYSTEM : ON_BEHALF)

/** The server's own role on the search path of requests, under a name for the change log. */
export const asServer = (tokenId: string): Identity => ({
  kind: 'admin',
  tokenId,
  role: 'owner',
  asServer: true,
  expiresAt: 0,
})

/** What an administrator who is no owner may call functions as: they read, and write nothing. */
export const asReader = (who: Identity): Identity =>
  who.kind === 'admin' && who.role === 'operator' ? { ...who, role: 'viewer' } : who

export const isOwner = (who: Identity): boolean => who.kind === 'admin' && who.role === 'owner'

/** The database roles that requests run under; the server's own role is `none` (SET ROLE NONE). */
export type DatabaseRole = 'svc_anon' | 'svc_authenticated' | 'none'

/** `claims`: further claims of the token as JSON, for svc.claims(); empty = none. */
export type DatabaseSession = { role: DatabaseRole; userId: string; email: string; aal: string; claims: string }

/** The role and session settings of an identity in PostgreSQL. */
export function databaseSession(who: Identity): DatabaseSession {
  switch (who.kind) {
    case 'anonymous':
      return { role: 'svc_anon', userId: '', email: '', aal: '', claims: '' }
    case 'user':
      return {
        role: 'svc_authenticated',
        userId: who.id,
        email: who.email,
        aal: who.aal,
        claims: who.claims ?? (who.org === undefined ? '' : `{"org":"${who.org}"}`),
      }
    case 'key':
      return {
        role: 'svc_authenticated',
        userId: who.userId ?? '',
        email: who.email,
        aal: who.aal ?? 'aal1',
        claims: who.claims ?? (who.org === undefined ? '' : `{"org":"${who.org}"}`),
      }
    case 'admin':
    case 'system':
      return { role: 'none', userId: '', email: '', aal: '', claims: '' }
    case 'mfa':
      throw new TypeError('an identity with a pending second factor has no database session')
  }
}

/** The settings by which policies know a caller, besides its role. */
export const CALLER_SETTINGS: { readonly [Field in Exclude<keyof DatabaseSession, 'role'>]: string } = {
  userId: 'svc.user_id',
  email: 'svc.user_email',
  aal: 'svc.aal',
  claims: 'svc.claims',
}

/**
 * The key of everything that is shared between callers who are alike. It holds what policies and guards can read of a
 * caller: all of the identity, whatever is added to it, but what only names the bearer.
 */
export function callerKey(who: Identity): string {
  const bearer = {
    expiresAt: undefined,
    sessionId: undefined,
    keyId: undefined,
    grantId: undefined,
    tokenId: undefined,
    secondFactorAt: undefined,
  }
  return JSON.stringify([databaseSession(who), { ...who, ...bearer }])
}

export const impersonationOf = (who: Identity): Impersonation | undefined =>
  who.kind === 'user' || who.kind === 'key' || who.kind === 'anonymous' ? who.impersonation : undefined

/** Its statements run in transactions that only read. */
export const mayOnlyRead = (who: Identity): boolean =>
  who.kind === 'admin' ? who.isLocked === true : impersonationOf(who)?.write === false

/** The refusal of a write by a caller who may only read. */
export const writeRefusal = (who: Identity): AppError =>
  who.kind === 'admin'
    ? new AppError('locked', 'the dashboard is locked: unlock it to write')
    : new AppError('insufficient_scope', 'this impersonation may only read')

/** On whom a caller's connections and the cost of its checks are counted; undefined for visitors and the operator. */
export const ownerOf = (who: Identity): string | undefined => {
  const own = userIdOf(who) ?? (who.kind === 'key' ? who.keyId : undefined)
  const impersonation = impersonationOf(who)
  return impersonation === undefined ? own : `admin ${impersonation.adminTokenId} as ${own ?? 'visitor'}`
}

export type UserIdentity = Extract<Identity, { kind: 'user' }>

/** Narrows the type on routes whose guard admits only users. */
export function userOf(who: Identity): UserIdentity {
  if (who.kind !== 'user') throw unauthorized('not authenticated')
  return who
}

export type AdminIdentity = Extract<Identity, { kind: 'admin' }>

/** As `userOf`, for routes of administrators. */
export function adminOf(who: Identity): AdminIdentity {
  if (who.kind !== 'admin') throw unauthorized('admin authentication required', 'admin_required')
  return who
}

/** A user who passed the first factor and has to pass the second. */
export type PendingIdentity = Extract<Identity, { kind: 'mfa' }>

/** As `userOf`, for routes that take MFA tokens. */
export function pendingOf(who: Identity): PendingIdentity {
  if (who.kind !== 'mfa') throw unauthorized('no MFA challenge pending', 'mfa_required')
  return who
}

/** The app on which a caller's use is counted, which an administrator's is not. */
export const meteredAppOf = (who: Identity): string | null => (impersonationOf(who) === undefined ? appIdOf(who) : null)

/** The app of a key or token, if it has one. */
export const appIdOf = (who: Identity): string | null => (who.kind === 'key' ? who.grant.appId : null)

/** The organisation for which a user or key acts, as the token or key says. */
export const orgIdOf = (who: Identity): string | undefined =>
  who.kind === 'user' || who.kind === 'key' ? who.org : undefined

/** The user behind an identity, if there is one. */
export const userIdOf = (who: Identity): string | null => {
  if (who.kind === 'user' || who.kind === 'mfa') return who.id
  return who.kind === 'key' ? who.userId : null
}
