import { unauthorized } from './errors.ts'

/** What an API key or OAuth token may do; absent on identities that are not limited. */
export type Grant = {
  scope: 'readonly' | 'readwrite' | '*'
  /** Unqualified or schema-qualified table names; empty = all tables. */
  tables: readonly string[]
  /** App whose rate limit and usage this token counts on. */
  appId: string | null
}

/** Who is calling. Made only by features/auth/identify.ts; consumed by the route guard and by db.fly. */
export type Identity =
  | { kind: 'anonymous' }
  | {
      kind: 'user'
      id: string
      email: string
      aal: 'aal1' | 'aal2'
      amr: readonly string[]
      sessionId: string
      isAnonymous: boolean
      /** Unix seconds at which the token that carried this identity expires. */
      expiresAt: number
    }
  /** First factor passed, second factor pending: only good for MFA challenge, verify and factor listing. */
  | { kind: 'mfa'; id: string; email: string; amr: readonly string[]; pendingId: string; expiresAt: number }
  /** API key or OAuth token; `userId` is null for OAuth client credentials. */
  | {
      kind: 'key'
      via: 'api_key' | 'oauth'
      keyId: string
      userId: string | null
      email: string
      grant: Grant
      /** Unix seconds; null = does not expire. */
      expiresAt: number | null
    }
  /** The operator's admin token: the server's own database role, RLS bypassed. */
  | { kind: 'admin'; tokenId: string; expiresAt: number }
  /** The server itself: its own tables and background work. */
  | { kind: 'system' }

export const ANONYMOUS: Identity = { kind: 'anonymous' }
export const SYSTEM: Identity = { kind: 'system' }

/** The database roles that requests run under; the server's own role is `none` (SET ROLE NONE). */
export type DatabaseRole = 'svc_anon' | 'svc_authenticated' | 'none'

export type DatabaseSession = { role: DatabaseRole; userId: string; email: string; aal: string }

/** How an identity appears inside PostgreSQL. */
export function databaseSession(who: Identity): DatabaseSession {
  switch (who.kind) {
    case 'anonymous':
      return { role: 'svc_anon', userId: '', email: '', aal: '' }
    case 'user':
      return { role: 'svc_authenticated', userId: who.id, email: who.email, aal: who.aal }
    case 'key':
      return { role: 'svc_authenticated', userId: who.userId ?? '', email: who.email, aal: 'aal1' }
    case 'admin':
    case 'system':
      return { role: 'none', userId: '', email: '', aal: '' }
    case 'mfa':
      throw new TypeError('an identity with a pending second factor has no database session')
  }
}

export type UserIdentity = Extract<Identity, { kind: 'user' }>

/** For routes whose guard let only users through; this says so to the compiler. */
export function userOf(who: Identity): UserIdentity {
  if (who.kind !== 'user') throw unauthorized('not authenticated')
  return who
}

/** A user who passed the first factor and has to pass the second. */
export type PendingIdentity = Extract<Identity, { kind: 'mfa' }>

/** As `userOf`, for routes that take MFA tokens. */
export function pendingOf(who: Identity): PendingIdentity {
  if (who.kind !== 'mfa') throw unauthorized('no MFA challenge pending', 'mfa_required')
  return who
}

/** The app that a key or token belongs to, if it does. */
export const appIdOf = (who: Identity): string | null => (who.kind === 'key' ? who.grant.appId : null)

/** The user behind an identity, if there is one. */
export const userIdOf = (who: Identity): string | null => {
  if (who.kind === 'user' || who.kind === 'mfa') return who.id
  return who.kind === 'key' ? who.userId : null
}
