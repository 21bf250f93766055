import { randomUUID } from 'node:crypto'
import { AppError, notFound, unauthorized } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Once, OnceAnswer } from '../../core/once.ts'
import { hmacSha256, randomToken, sha256 } from '../../core/secret.ts'
import type { Db, Relayed } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { invalidToken } from '../../identity/errors.ts'
import type { ExtraClaims, SessionFacts, SessionHooks } from '../../identity/hooks.ts'
import { hasSecondFactor } from '../../identity/second-factor.ts'
import type { AuthResponse, Device, NewSession, StartSession, StepUp, UserJson } from '../../identity/session.ts'
import { lockOwner } from '../../identity/users.ts'
import { type Keys, signJwt } from './jwt.ts'
import type { NoticeDevice } from './new-device.ts'
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

export function createSessions(deps: {
  db: Db
  revocations: Revocations
  keys: () => Keys
  config: SessionConfig
  publicBaseUrl: () => string
  noticeDevice: NoticeDevice
  hooks: SessionHooks
}) {
  const { db, revocations, config, hooks } = deps

  const nowSeconds = (): number => Math.floor(revocations.clock.now() / 1000)

  function accessToken(user: UserJson, session: SessionFacts, more: ExtraClaims): string {
    const iat = nowSeconds()
    const issuer = deps.publicBaseUrl()
    return signJwt(
      'access',
      {
        ...more,
        iss: issuer,
        aud: `${issuer}/api`,
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

  function mfaToken(
    user: Pick<UserJson, 'id' | 'email' | 'is_anonymous'>,
    jti: string,
    amr: readonly string[],
  ): string {
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
    const finish: NewSession['finish'] = async (answer, refused = invalidToken) => {
      if (answer === null) throw refused()
      const { user, pending } = JSON.parse(answer) as { user: UserJson; pending: boolean }
      if (pending) return { mfa_pending: true, mfa_token: mfaToken(user, pendingId, amr) }
      const more = hooks.beforeSignIn || hooks.tokenClaims ? await judged(user, session, device) : NO_CLAIMS
      deps.noticeDevice(user, device)
      return { token: accessToken(user, session, more), refreshToken, user }
    }
    const lock = lockOwner(sql`${userId}::uuid`)
    const open: NewSession['open'] = async (tx, refused) => {
      const [, answer] = await tx.fly([lock, statement])
      if (answer === null) throw (refused ?? invalidToken)()
      return () => finish(answer, refused)
    }
    return { lock, statement, finish, open }
  }

  /** No one has the tokens of the session yet: one that a hook refuses, or is not let through by, ends. */
  async function judged(user: UserJson, session: SessionFacts, device: Device): Promise<ExtraClaims> {
    try {
      await hooks.beforeSignIn?.(user, session, device)
      return (await hooks.tokenClaims?.(user, session)) ?? NO_CLAIMS
    } catch (error) {
      await end(sql`${user.id}::uuid`, q.endSession(session.sessionId))
      throw error
    }
  }

  const stepUp: StepUp = async (tx, { id, email, isAnonymous, sessionId, amr }) => {
    const [pendingId, first] = [randomUUID(), amr.slice(0, 1)]
    await tx.run(q.parkSession({ pendingId, userId: id, sessionId, amr: first, mfaSeconds: MFA_SECONDS }))
    return mfaToken({ id, email, is_anonymous: isAnonymous }, pendingId, first)
  }

  type Current = { user: UserJson; sessionId: string; aal: 'aal1' | 'aal2'; amr: string[]; org: string | null }

  async function refresh(refreshToken: string, device: Device, once?: Once): Promise<AuthResponse> {
    const [hash, successor] = [sha256(refreshToken), randomToken()]
    const rotation = q.rotateRefreshToken({
      hash,
      successorHash: sha256(successor),
      successorSealed: config.refresh_grace_seconds > 0 ? sealWith(refreshToken, successor) : null,
      refreshSeconds: config.refresh_token_duration,
      device,
    })
    const lock = lockOwner(q.ownerOfToken(hash))
    // Before the rotation: a client whose hook failed still has a good token.
    const more = hooks.tokenClaims ? await claimsFor(await db.fly(SYSTEM, q.sessionOfToken(hash))) : NO_CLAIMS
    if (once) {
      const answered = await refreshOnce([lock, rotation], { successor, more }, once)
      return answered ?? reused(refreshToken, hash)
    }
    const [, won] = await db.fly(SYSTEM, [lock, rotation])
    return won === null ? reused(refreshToken, hash) : renewed(won, successor, more)
  }

  async function claimsFor(session: string | null): Promise<ExtraClaims> {
    if (session === null || !hooks.tokenClaims) return NO_CLAIMS
    const current = JSON.parse(session) as Current
    return hooks.tokenClaims(current.user, current)
  }

  /** The answer is kept with the rotation, so that one that is lost on the way can be had again with its key. */
  async function refreshOnce(
    statements: [Sql, Sql],
    { successor, more }: { successor: string; more: ExtraClaims },
    once: Once,
  ): Promise<AuthResponse | undefined> {
    once.rights = []
    const refused = refusedToken()
    let response: AuthResponse | undefined
    const answer = ([, won]: readonly (Relayed | null)[]): OnceAnswer => {
      if (won == null) throw refused
      response = renewed(String(won), successor, more)
      const { user, sessionId } = JSON.parse(String(won)) as Current
      return { status: 200, body: JSON.stringify(response), account: `user ${user.id}`, sessionId }
    }
    await db.fly(SYSTEM, statements, { once: { key: once, answer } }).catch((error: unknown) => {
      if (error !== refused) throw error
    })
    return response
  }

  function renewed(session: string, refreshToken: string, more: ExtraClaims): AuthResponse {
    const current = JSON.parse(session) as Current
    return { token: accessToken(current.user, current, more), refreshToken, user: current.user }
  }

  async function reused(refreshToken: string, hash: string): Promise<AuthResponse> {
    const grace = config.refresh_grace_seconds
    const text = await db.fly(SYSTEM, q.usedRefreshToken(hash, Math.max(HARMLESS_REUSE_SECONDS, grace), grace))
    type Used = { session: string; stolen: boolean; sealed: string | null; current: string }
    const used = text === null ? undefined : (JSON.parse(text) as Used)
    if (used?.stolen) await end(q.ownerOfSession(used.session), q.endSession(used.session))
    if (used?.sealed) {
      return renewed(used.current, unsealWith(refreshToken, used.sealed), await claimsFor(used.current))
    }
    throw refusedToken()
  }

  /** Runs a statement that ends sessions, and drops them from this process's cache before the answer is sent. */
  async function end(owner: Sql, statement: Sql): Promise<void> {
    const ended = await db.rows<{ id: string }>(SYSTEM, [lockOwner(owner), statement])
    revocations.apply(ended.map(({ id }) => ({ kind: 'session', subject: id })))
  }

  return {
    start,
    stepUp,
    refresh,
    /** An access token of a session, with its claims of now. */
    async tokenOf(sessionId: string): Promise<string> {
      const text = await db.fly(SYSTEM, q.currentSession(sessionId))
      if (text === null) throw invalidToken()
      const current = JSON.parse(text) as Current
      return accessToken(current.user, current, await claimsFor(text))
    },
    logout: (refreshToken: string): Promise<void> =>
      end(q.ownerOfToken(sha256(refreshToken)), q.endSessionOfToken(sha256(refreshToken))),
    list: async (userId: string, current: string): Promise<string> =>
      (await db.fly(SYSTEM, q.listSessions(userId, current))) ?? '[]',

    async revoke(userId: string, sessionId: string): Promise<void> {
      const owner = await db.fly(SYSTEM, q.ownerOfSession(sessionId))
      if (owner === null) throw notFound('session not found', 'session_not_found')
      if (owner !== userId) throw new AppError('forbidden', "cannot revoke another user's session")
      await end(q.ownerOfSession(sessionId), q.endSession(sessionId))
    },

    /** Ends a session of a user, if there is one. */
    endOne: (userId: string, sessionId: string): Promise<void> =>
      end(sql`${userId}::uuid`, q.endSessionOf(userId, sessionId)),

    revokeOthers: (userId: string, keep: string): Promise<void> =>
      end(sql`${userId}::uuid`, q.endOtherSessions(userId, keep)),
  }
}

const NO_CLAIMS: ExtraClaims = {}

const refusedToken = (): AppError => unauthorized('invalid or expired refresh token', 'invalid_refresh_token')

/** A one-time pad from the old token, so that the database alone does not reveal the new one. */
const sealWith = (oldToken: string, newToken: string): string =>
  xor(pad(oldToken), Buffer.from(newToken)).toString('base64')

const unsealWith = (oldToken: string, sealed: string): string =>
  xor(pad(oldToken), Buffer.from(sealed, 'base64')).toString()

const pad = (token: string): Buffer =>
  Buffer.concat([hmacSha256(token, 'successor 1'), hmacSha256(token, 'successor 2')])

const xor = (pad: Buffer, text: Buffer): Buffer => Buffer.from(text.map((byte, i) => byte ^ (pad[i] ?? 0)))
