import { randomUUID } from 'node:crypto'
import { AppError, notFound, unauthorized } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { hmacSha256, randomToken, sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { invalidToken } from '../../identity/errors.ts'
import { hasSecondFactor } from '../../identity/second-factor.ts'
import type { AuthResponse, Device, NewSession, StartSession, UserJson } from '../../identity/session.ts'
import { type Keys, signJwt } from './jwt.ts'
import type { Revocations } from './revocations.ts'
import * as q from './sql.ts'

export type SessionConfig = {
  token_duration: number
  refresh_token_duration: number
  refresh_grace_seconds: number
}

export type Sessions = ReturnType<typeof createSessions>

const MFA_SECONDS = 300
/** Reuse of a refresh token within this time counts as a race of two tabs, later as theft. */
const HARMLESS_REUSE_SECONDS = 10

export function createSessions(deps: { db: Db; revocations: Revocations; keys: () => Keys; config: SessionConfig }) {
  const { db, revocations, config } = deps

  const nowSeconds = (): number => Math.floor(revocations.clock.now() / 1000)

  function accessToken(
    user: UserJson,
    session: { sessionId: string; aal: 'aal1' | 'aal2'; amr: readonly string[]; org?: string | null },
  ): string {
    const iat = nowSeconds()
    return signJwt(
      'access',
      {
        sub: user.id,
        iat,
        exp: iat + config.token_duration,
        jti: randomUUID(),
        email: user.email,
        sid: session.sessionId,
        aal: session.aal,
        amr: session.amr,
        is_anonymous: user.is_anonymous,
        ...(session.org != null && { org: session.org }),
        mfa_pending: false,
      },
      deps.keys(),
    )
  }

  function mfaToken(user: UserJson, jti: string, amr: readonly string[]): string {
    const iat = nowSeconds()
    const exp = iat + MFA_SECONDS
    const { id: sub, email, is_anonymous } = user
    return signJwt('mfa', { sub, iat, exp, jti, email, aal: 'aal1', amr, is_anonymous, mfa_pending: true }, deps.keys())
  }

  const start: StartSession = (userId, amr, device, onlyIf = sql`true`) => {
    const session = { sessionId: randomUUID(), aal: amr.length > 1 ? ('aal2' as const) : ('aal1' as const), amr }
    const [pendingId, refreshToken] = [randomUUID(), randomToken()]
    // A passkey with user verification is already two factors.
    const mayWait = session.aal === 'aal1' && amr[0] !== 'webauthn'
    const statement = q.openSession({
      ...session,
      pendingId,
      userId,
      device,
      refreshHash: sha256(refreshToken),
      refreshSeconds: config.refresh_token_duration,
      mfaSeconds: MFA_SECONDS,
      onlyIf,
      secondFactor: mayWait ? hasSecondFactor(sql`u.id`) : sql`false`,
    })
    const finish: NewSession['finish'] = (answer, refused = invalidToken) => {
      if (answer === null) throw refused()
      const { user, pending } = JSON.parse(answer) as { user: UserJson; pending: boolean }
      if (pending) return { mfa_pending: true, mfa_token: mfaToken(user, pendingId, amr) }
      return { token: accessToken(user, session), refreshToken, user }
    }
    return { statement, finish, open: async (tx, refused) => finish(await tx.fly(statement), refused) }
  }

  type Current = { user: UserJson; sessionId: string; aal: 'aal1' | 'aal2'; amr: string[]; org: string | null }

  async function refresh(refreshToken: string, device: Device): Promise<AuthResponse> {
    const [hash, successor] = [sha256(refreshToken), randomToken()]
    const won = await db.fly(
      SYSTEM,
      q.rotateRefreshToken({
        hash,
        successorHash: sha256(successor),
        successorSealed: config.refresh_grace_seconds > 0 ? sealWith(refreshToken, successor) : null,
        refreshSeconds: config.refresh_token_duration,
        device,
      }),
    )
    return won === null ? reused(refreshToken, hash) : renewed(won, successor)
  }

  function renewed(session: string, refreshToken: string): AuthResponse {
    const current = JSON.parse(session) as Current
    return { token: accessToken(current.user, current), refreshToken, user: current.user }
  }

  async function reused(refreshToken: string, hash: string): Promise<AuthResponse> {
    const grace = config.refresh_grace_seconds
    const text = await db.fly(SYSTEM, q.usedRefreshToken(hash, Math.max(HARMLESS_REUSE_SECONDS, grace), grace))
    type Used = { session: string; stolen: boolean; sealed: string | null; current: string }
    const used = text === null ? undefined : (JSON.parse(text) as Used)
    if (used?.stolen) await end(q.endSession(used.session))
    if (used?.sealed) return renewed(used.current, unsealWith(refreshToken, used.sealed))
    throw unauthorized('invalid or expired refresh token', 'invalid_refresh_token')
  }

  /** Runs a statement that ends sessions, and drops them from this process's cache before the answer is sent. */
  async function end(statement: Sql): Promise<void> {
    const ended = await db.rows<{ id: string }>(SYSTEM, statement)
    revocations.apply(ended.map(({ id }) => ({ kind: 'session', subject: id })))
  }

  return {
    start,
    refresh,
    /** An access token of a session, with its claims of now. */
    async tokenOf(sessionId: string): Promise<string> {
      const text = await db.fly(SYSTEM, q.currentSession(sessionId))
      if (text === null) throw invalidToken()
      const current = JSON.parse(text) as Current
      return accessToken(current.user, current)
    },
    logout: (refreshToken: string): Promise<void> => end(q.endSessionOfToken(sha256(refreshToken))),
    list: async (userId: string, current: string): Promise<string> =>
      (await db.fly(SYSTEM, q.listSessions(userId, current))) ?? '[]',

    async revoke(userId: string, sessionId: string): Promise<void> {
      const [found] = await db.rows<{ owner: string }>(SYSTEM, q.ownerOfSession(sessionId))
      if (!found) throw notFound('session not found', 'session_not_found')
      if (found.owner !== userId) throw new AppError('forbidden', "cannot revoke another user's session")
      await end(q.endSession(sessionId))
    },

    revokeOthers: (userId: string, keep: string): Promise<void> => end(q.endOtherSessions(userId, keep)),
  }
}

/** A one-time pad from the old token, so that the database alone does not reveal the new one. */
const sealWith = (oldToken: string, newToken: string): string =>
  xor(pad(oldToken), Buffer.from(newToken)).toString('base64')

const unsealWith = (oldToken: string, sealed: string): string =>
  xor(pad(oldToken), Buffer.from(sealed, 'base64')).toString()

const pad = (token: string): Buffer =>
  Buffer.concat([hmacSha256(token, 'successor 1'), hmacSha256(token, 'successor 2')])

const xor = (pad: Buffer, text: Buffer): Buffer => Buffer.from(text.map((byte, i) => byte ^ (pad[i] ?? 0)))
