import { LRUCache } from 'lru-cache'
import { ANONYMOUS, type Identity, impersonationOf, SYSTEM } from '../../core/identity.ts'
import { sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { sql } from '../../db/sql.ts'
import { invalidToken } from '../../identity/errors.ts'
import { OWN_CLAIMS } from '../../identity/hooks.ts'
import { type AccessClaims, isOfUnknownKey, type Keys, type MfaClaims, readJwt } from './jwt.ts'
import type { Revocations } from './revocations.ts'

type Of<Kind extends Identity['kind']> = Extract<Identity, { kind: Kind }>
type Resolve<Who extends Identity> = (text: string) => Promise<Who | undefined>

export type IdentifyDeps = {
  db: Db
  /** False: there are no users, only the operator. */
  authEnabled: boolean
  revocations: Pick<Revocations, 'clock' | 'isFresh' | 'generation' | 'onRevoked' | 'refresh'>
  keys: () => Keys
  /** Gets the SHA-256 of the key. */
  resolveApiKey?: Resolve<Of<'key'>> | undefined
  resolveAdminToken?: Resolve<Of<'admin'>> | undefined
  resolveOAuthToken?: Resolve<Of<'key'>> | undefined
  resolveImpersonation?: Resolve<Identity> | undefined
  /** A token of another issuer, at this time. */
  resolveForeignToken?: ((token: string, nowMs: number) => Promise<Of<'key'> | undefined>) | undefined
}

export type IdentifyBearer = (bearer: string) => Identity | Promise<Identity>

/** An identity and when it expires: JWTs at their own expiry, others are checked again each minute. */
type CachedBearer = { who: Identity; untilMs: number }

const MAX_CACHED_BYTES = 16 * 1024 * 1024
const RECHECK_MS = 60_000
const MAX_BEARER = 16 * 1024

/** Turns a bearer into an identity; a fresh cache entry costs no query. */
export function createIdentify(deps: IdentifyDeps): IdentifyBearer {
  const { revocations } = deps
  const cache = new LRUCache<string, CachedBearer>({ maxSize: MAX_CACHED_BYTES, sizeCalculation: bytesOf })

  revocations.onRevoked((ends) => {
    for (const [bearer, { who }] of cache.entries()) if (ends(who)) cache.delete(bearer)
  })

  async function identify(bearer: string): Promise<Identity> {
    const generation = revocations.generation()
    const who = await recognise(bearer)
    if (!who) throw invalidToken()
    const untilMs = trustedUntil(who)
    // Not cached if a revocation arrived meanwhile, because it may be about this bearer.
    if (untilMs !== undefined && generation === revocations.generation()) cache.set(bearer, { who, untilMs })
    return who
  }

  function trustedUntil(who: Identity): number | undefined {
    const impersonation = impersonationOf(who)
    if (impersonation) return impersonation.expiresAt * 1000
    if (who.kind === 'user') return who.expiresAt * 1000
    if (who.kind !== 'key' && who.kind !== 'admin') return undefined
    return Math.min(revocations.clock.now() + RECHECK_MS, (who.expiresAt ?? Number.POSITIVE_INFINITY) * 1000)
  }

  async function recognise(bearer: string): Promise<Identity | undefined> {
    if (/^[0-9a-f]{64}$/.test(bearer)) return deps.resolveAdminToken?.(bearer)
    if (bearer.startsWith('svc_im_')) return deps.resolveImpersonation?.(bearer)
    if (!deps.authEnabled) return ANONYMOUS
    if (bearer.startsWith('svc_at_')) return deps.resolveOAuthToken?.(bearer)
    if (/^svc_[0-9a-f]{48}$/.test(bearer)) return deps.resolveApiKey?.(sha256(bearer))
    const claims = await readToken(bearer)
    if (!claims) return deps.resolveForeignToken?.(bearer, revocations.clock.now())
    return claims.mfa_pending ? pendingLogin(claims) : session(claims)
  }

  let lookedAt = Number.NEGATIVE_INFINITY
  /** A key that another process made a moment ago is looked up, at most once a second however many are unknown. */
  async function readToken(bearer: string): Promise<AccessClaims | MfaClaims | undefined> {
    const read = () => readJwt(bearer, deps.keys(), revocations.clock.now() / 1000)
    const claims = read()
    if (claims || !isOfUnknownKey(bearer, deps.keys()) || performance.now() - lookedAt < 1000) return claims
    lookedAt = performance.now()
    await revocations.refresh()
    return read()
  }

  /** Read from the row instead of the claims, to respect logout, deletion and a changed address. */
  async function session(claims: AccessClaims): Promise<Of<'user'> | undefined> {
    const [row] = await deps.db.rows<SessionRow>(
      SYSTEM,
      sql`
      select u.id::text, coalesce(u.email, '') as email, u.is_anonymous, s.aal, to_json(s.amr) as amr
      from svc.sessions s join svc.users u on u.id = s.user_id
      where s.id = ${claims.sid}::uuid and u.id = ${claims.sub}::uuid`,
      { kind: 'read' },
    )
    return (
      row && {
        kind: 'user',
        id: row.id,
        email: row.email,
        aal: row.aal,
        amr: row.amr,
        sessionId: claims.sid,
        isAnonymous: row.is_anonymous,
        ...(claims.org !== undefined && { org: claims.org }),
        ...withExtra(claims),
        expiresAt: claims.exp,
      }
    )
  }

  async function pendingLogin(claims: MfaClaims): Promise<Of<'mfa'> | undefined> {
    const [row] = await deps.db.rows<{ id: string; email: string; amr: string[] }>(
      SYSTEM,
      sql`
      select u.id::text, coalesce(u.email, '') as email, to_json(p.amr) as amr
      from svc.pending_logins p join svc.users u on u.id = p.user_id
      where p.id = ${claims.jti}::uuid and u.id = ${claims.sub}::uuid and p.expires_at > now()`,
      { kind: 'read' },
    )
    return row && { kind: 'mfa', ...row, pendingId: claims.jti, expiresAt: claims.exp }
  }

  return (bearer) => {
    if (bearer.length > MAX_BEARER) throw invalidToken()
    const cached = cache.get(bearer)
    if (cached === undefined || !revocations.isFresh()) return identify(bearer)
    if (revocations.clock.now() < cached.untilMs) return cached.who
    cache.delete(bearer)
    return identify(bearer)
  }
}

/** What a hook added to the token, and with it the active organisation, as policies read them. */
function withExtra(claims: AccessClaims): { claims?: string } {
  const extra = Object.entries(claims).filter(([name]) => !OWN_CLAIMS.has(name))
  if (extra.length === 0) return {}
  return {
    claims: JSON.stringify({ ...Object.fromEntries(extra), ...(claims.org !== undefined && { org: claims.org }) }),
  }
}

/** About what an entry takes: a text of one byte per character, or of two, and what objects cost. */
function bytesOf({ who }: CachedBearer, bearer: string): number {
  const texts = 'email' in who ? bearer.length + 2 * (who.email?.length ?? 0) : bearer.length
  if (who.kind === 'user') return 600 + texts + 2 * (who.claims?.length ?? 0)
  if (who.kind !== 'key') return 600 + texts
  const { grant, claims = '' } = who
  return grant.tables.reduce((bytes, name) => bytes + 32 + 2 * name.length, 600 + texts + 2 * claims.length)
}

type SessionRow = { id: string; email: string; is_anonymous: boolean; aal: 'aal1' | 'aal2'; amr: string[] }
