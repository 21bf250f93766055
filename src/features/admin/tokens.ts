import { AppError, unauthorized } from '../../core/errors.ts'
import { type AdminRole, type Identity, SYSTEM } from '../../core/identity.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import type { Db, Tx } from '../../db/db.ts'
import { sql } from '../../db/sql.ts'
import { adminByEmail, insertNamedToken } from './admins-sql.ts'
import { type AdminPasswords, currentHash } from './password.ts'
import { createCodeCheck } from './second-factor.ts'
import { type AdminFactor, lockFactor } from './second-factor-sql.ts'
import { endToken, findToken, forgetExpiredTokens, insertToken } from './sql.ts'

export type AdminTokens = {
  /** 401 unless the password is right; with an address it is that administrator's, else the shared one. */
  login(password: string, email?: string, code?: string): Promise<string>
  /** In a transaction that locked the administrator's row, for a sign-in with both factors unless it says otherwise. */
  issueNamed(tx: Tx, adminId: string): Promise<string>
  /** A token for the server's own command line tool; undefined while admin access is off. */
  issue(): Promise<string | undefined>
  end(token: string): Promise<void>
  resolve(token: string): Promise<Extract<Identity, { kind: 'admin' }> | undefined>
}

type Deps = {
  db: Db
  passwords: AdminPasswords
  config: {
    enabled: boolean
    token_duration: number
    shared_password: boolean
    require_mfa: boolean
    dashboard_locked: boolean
  }
  box: SecretBox
}

type FoundToken = {
  id: string
  expiresAt: number
  via: 'password' | 'machine' | 'name'
  /** Null for tokens of the shared password and of the machine. */
  adminId: string | null
  email: string | null
  role: AdminRole | null
  secondFactorAt: number | null
  client: 'dashboard' | null
}

/** No admin password is longer (docs/config.md), so longer input is refused before hashing. */
const MAX_PASSWORD_BYTES = 1024

const refused = (email: string | undefined) =>
  unauthorized(email === undefined ? 'invalid password' : 'invalid email or password', 'invalid_credentials')

type Issuer = { db: Pick<Db, 'fly' | 'run'>; config: { enabled: boolean; token_duration: number } }

async function issueFor(
  { db, config }: Issuer,
  hash: string,
  via: 'password' | 'machine',
): Promise<string | undefined> {
  const token = randomHex(32)
  const insert = insertToken(sha256(token), config.token_duration, hash, via)
  return (await db.run(SYSTEM, [forgetExpiredTokens(), insert])) === 1 ? token : undefined
}

/** For the command line tool of this machine; undefined while admin access is off. */
export async function issueMachineToken(issuer: Issuer): Promise<string | undefined> {
  const hash = issuer.config.enabled ? await currentHash(issuer.db) : null
  return hash === null ? undefined : issueFor(issuer, hash, 'machine')
}

export function createAdminTokens({ db, passwords, config, box }: Deps): AdminTokens {
  const checkCode = createCodeCheck(box)
  /** With a second factor required, the password that all share is none. */
  const isShared = config.shared_password && !config.require_mfa

  async function withSharedPassword(password: string): Promise<string | undefined> {
    if (!isShared) return undefined
    const hash = (await currentHash(db)) ?? undefined
    const isRight = await passwords.verify(password, hash)
    return isRight && hash !== undefined ? issueFor({ db, config }, hash, 'password') : undefined
  }

  async function issueNamed(tx: Tx, adminId: string, hasFactor = true): Promise<string> {
    const token = randomHex(32)
    await tx.run(forgetExpiredTokens())
    await tx.run(insertNamedToken(sha256(token), config.token_duration, adminId, hasFactor))
    return token
  }

  async function withName(email: string, password: string, code?: string): Promise<string | undefined> {
    const [known] = await db.rows<{ id: string; hash: string }>(SYSTEM, adminByEmail(email))
    if (!(await passwords.verify(password, known?.hash)) || !known) return undefined
    const outcome = await db.tx(SYSTEM, async (tx) => {
      // Not found if the administrator went or the password changed since it was verified.
      const [factor] = await tx.rows<AdminFactor>(
        lockFactor(sql`id = ${known.id}::uuid and password_hash = ${known.hash}`),
      )
      if (!factor) return undefined
      // Without an app the passkey is the second factor, and it signs in by itself.
      if (!factor.isConfirmed && factor.hasPasskey) return unauthorized('sign in with a passkey', 'mfa_required')
      if (factor.isConfirmed && code === undefined) return unauthorized('a code is required', 'mfa_required')
      const wrong = factor.isConfirmed ? await checkCode(tx, factor, code ?? '') : undefined
      if (wrong) return wrong
      return issueNamed(tx, known.id, factor.isConfirmed)
    })
    if (outcome instanceof AppError) throw outcome
    return outcome
  }

  return {
    async login(password, email, code) {
      if (!config.enabled) throw new AppError('feature_disabled', 'admin auth not configured')
      if (Buffer.byteLength(password) > MAX_PASSWORD_BYTES) throw refused(email)
      const token = email === undefined ? await withSharedPassword(password) : await withName(email, password, code)
      if (token === undefined) throw refused(email)
      return token
    },
    issueNamed,
    issue: () => issueMachineToken({ db, config }),
    async end(token) {
      await db.run(SYSTEM, endToken(sha256(token)))
    },
    async resolve(token) {
      if (!config.enabled || !/^[0-9a-f]{64}$/.test(token)) return undefined
      const [found] = await db.rows<FoundToken>(SYSTEM, findToken(sha256(token)))
      if (!found || (found.via === 'password' && !isShared)) return undefined
      const { id: tokenId, adminId, email, role, expiresAt, secondFactorAt } = found
      const lock = config.dashboard_locked && found.client === 'dashboard' ? { isLockable: true as const } : {}
      if (adminId === null || email === null || role === null) {
        const isMachine = found.via === 'machine' ? { isMachine: true as const } : {}
        return { kind: 'admin', tokenId, role: 'owner', expiresAt, ...isMachine, ...lock }
      }
      const named = { kind: 'admin', tokenId, role, adminId, email, expiresAt, ...lock } as const
      if (secondFactorAt !== null) return { ...named, secondFactorAt }
      return config.require_mfa ? { ...named, mustEnrol: true } : named
    },
  }
}
