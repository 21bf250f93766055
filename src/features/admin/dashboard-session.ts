import { AppError, badRequest, unauthorized } from '../../core/errors.ts'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import { changeAudited } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import { json, noContent, type Route, route } from '../../http/route.ts'
import * as q from './dashboard-session-sql.ts'

type Admin = Extract<Identity, { kind: 'admin' }>

export type DashboardSessionDeps = {
  db: Db
  dropEnded: () => Promise<void>
  /** 401 unless this is what signing in as the administrator of a token takes. */
  proveAgain(who: Admin, given: SignInFields): Promise<void>
}

export type SignInFields = {
  email?: string | undefined
  password?: string | undefined
  code?: string | undefined
  challenge_id?: string | undefined
  assertion_response?: Record<string, unknown> | undefined
}

const CODE_SECONDS = 60
const UNLOCKED_SECONDS = 600

/** The fields by which administrators sign in with a password. */
export const credentialFields = {
  email: t.optional(t.string({ format: 'email' })),
  password: t.string({ format: 'password' }),
  code: t.optional(t.string({ description: 'of the second factor' })),
}

/** A token of the dashboard for a code; 401 for one that is spent, late or unknown. */
export async function openWithCode(db: Db, code: string): Promise<string> {
  const token = randomHex(32)
  const opened = /^[0-9a-f]{64}$/.test(code) ? await db.run(SYSTEM, q.spendAdminCode(sha256(code), sha256(token))) : 0
  if (opened === 1) return token
  throw unauthorized('invalid or expired code', 'invalid_code')
}

export const markAsDashboard = async (db: Db, token: string): Promise<void> => {
  await db.run(SYSTEM, q.markDashboard(sha256(token)))
}

export const isUnlocked = async (db: Db, tokenId: string): Promise<boolean> =>
  (await db.fly(SYSTEM, q.unlockedToken(tokenId))) !== null

/** Signing out, codes for `svc open`, and unlocking a dashboard that is locked. */
export function dashboardSessionRoutes({ db, dropEnded, proveAgain }: DashboardSessionDeps): Route[] {
  const own = { auth: 'admin', leastRole: 'viewer', enrols: true, readsToo: true } as const
  return [
    route('POST /api/admin/auth/logout', {
      summary: 'End the token of this request, and whatever it impersonates',
      ...own,
      audit: 'admin.logout',
      body: t.object({}),
      answers: { 204: null },
      handle: async (call) => {
        const { tokenId } = call.who as Admin
        const end = async (tx: Tx): Promise<void> => void (await tx.run(q.endTokenById(tokenId)))
        await changeAudited(db, end, () => call.audit({ target: tokenId }))
        await dropEnded()
        return noContent
      },
    }),
    route('POST /api/admin/auth/code', {
      summary: 'A code that opens the dashboard signed in: good once, for 60 seconds',
      ...own,
      audit: 'admin.code',
      body: t.object({}),
      answers: { 201: t.object({ code: t.string(), expires_at: t.time() }) },
      handle: async (call) => {
        const { tokenId } = call.who as Admin
        const code = randomHex(32)
        const insert = async (tx: Tx): Promise<string> => {
          await tx.run(q.forgetExpiredCodes)
          const [made] = await tx.rows<{ expiresAt: string }>(q.insertAdminCode(sha256(code), tokenId, CODE_SECONDS))
          if (made) return made.expiresAt
          throw unauthorized('admin authentication required', 'admin_required')
        }
        const expiresAt = await changeAudited(db, insert, () => call.audit({ target: tokenId }))
        return json(201, { code, expires_at: expiresAt })
      },
    }),
    route('POST /api/admin/unlock', {
      summary: 'Let the dashboard of this token write for ten minutes; takes what signing in takes',
      ...own,
      limit: 'admin_login',
      audit: 'admin.unlock',
      body: t.object({
        ...credentialFields,
        password: t.optional(credentialFields.password),
        challenge_id: t.optional(
          t.string({ description: 'of POST /api/admin/auth/passkey/begin, in place of a password' }),
        ),
        assertion_response: t.optional(t.record(t.any(), { description: 'the PublicKeyCredential in JSON form' })),
      }),
      answers: { 200: t.object({ unlocked_until: t.time() }) },
      handle: async (call) => {
        const who = call.who as Admin
        await proveAgain(who, call.body)
        const unlock = async (tx: Tx): Promise<string> => {
          const [row] = await tx.rows<{ unlockedUntil: string }>(q.unlockToken(who.tokenId, UNLOCKED_SECONDS))
          if (row) return row.unlockedUntil
          throw unauthorized('admin authentication required', 'admin_required')
        }
        const until = await changeAudited(db, unlock, () => call.audit({ target: who.tokenId }))
        return json(200, { unlocked_until: until })
      },
    }),
  ]
}

type Proofs = {
  login(password: string, email?: string, code?: string): Promise<string>
  loginByPasskey(given: { challenge_id: string; assertion_response: unknown }): Promise<string>
  resolve(token: string): Promise<Admin | undefined>
  end(token: string): Promise<void>
}

/** Signs in anew, by the password or a passkey, and gives that token up at once. */
export const createProof =
  (tokens: Proofs): DashboardSessionDeps['proveAgain'] =>
  async (who, { email = who.email, password, code, challenge_id, assertion_response }) => {
    const hasPasskey = challenge_id !== undefined && assertion_response !== undefined
    if (hasPasskey === Boolean(password))
      throw badRequest(hasPasskey ? 'choose one of password, passkey' : 'password is required')
    const token = hasPasskey
      ? await tokens.loginByPasskey({ challenge_id, assertion_response })
      : await tokens.login(password ?? '', email, code)
    const proven = await tokens.resolve(token)
    await tokens.end(token)
    // A token of the machine belongs to no administrator in particular.
    const isSame = who.adminId === undefined ? proven?.role === 'owner' : proven?.adminId === who.adminId
    if (!isSame) throw new AppError('forbidden', 'these are the credentials of another administrator')
  }
