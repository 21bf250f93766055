import { AppError, unauthorized } from '../../core/errors.ts'
import { type AdminRole, type Identity, SYSTEM } from '../../core/identity.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { adminByEmail, insertNamedToken } from './admins-sql.ts'
import { type AdminPasswords, currentHash } from './password.ts'
import { endToken, findToken, forgetExpiredTokens, insertToken } from './sql.ts'

export type AdminTokens = {
  /** 401 unless the password is right; with an address it is that administrator's, else the shared one. */
  login(password: string, email?: string): Promise<string>
  /** A token for the server's own command line tool; undefined while admin access is off. */
  issue(): Promise<string | undefined>
  end(token: string): Promise<void>
  resolve(token: string): Promise<Extract<Identity, { kind: 'admin' }> | undefined>
}

type Deps = {
  db: Db
  passwords: AdminPasswords
  config: { enabled: boolean; token_duration: number; shared_password: boolean }
}

type FoundToken = {
  id: string
  expiresAt: number
  via: 'password' | 'machine' | 'name'
  /** Null for tokens of the shared password and of the machine. */
  adminId: string | null
  email: string | null
  role: AdminRole | null
}

/** No admin password is longer (docs/config.md), so longer input is refused before hashing. */
const MAX_PASSWORD_BYTES = 1024

const refused = (email: string | undefined) =>
  unauthorized(email === undefined ? 'invalid password' : 'invalid email or password', 'invalid_credentials')

export function createAdminTokens({ db, passwords, config }: Deps): AdminTokens {
  async function issueFor(hash: string, via: 'password' | 'machine'): Promise<string | undefined> {
    return issueBy((tokenHash) => insertToken(tokenHash, config.token_duration, hash, via))
  }

  async function issueBy(insert: (tokenHash: string) => Sql): Promise<string | undefined> {
    const token = randomHex(32)
    const inserted = await db.run(SYSTEM, [forgetExpiredTokens(), insert(sha256(token))])
    return inserted === 1 ? token : undefined
  }

  async function withSharedPassword(password: string): Promise<string | undefined> {
    if (!config.shared_password) return undefined
    const hash = (await currentHash(db)) ?? undefined
    const isRight = await passwords.verify(password, hash)
    return isRight && hash !== undefined ? issueFor(hash, 'password') : undefined
  }

  async function withName(email: string, password: string): Promise<string | undefined> {
    const [known] = await db.rows<{ id: string; hash: string }>(SYSTEM, adminByEmail(email))
    if (!(await passwords.verify(password, known?.hash)) || !known) return undefined
    return issueBy((tokenHash) => insertNamedToken(tokenHash, config.token_duration, known))
  }

  return {
    async login(password, email) {
      if (!config.enabled) throw new AppError('feature_disabled', 'admin auth not configured')
      if (Buffer.byteLength(password) > MAX_PASSWORD_BYTES) throw refused(email)
      const token = email === undefined ? await withSharedPassword(password) : await withName(email, password)
      if (token === undefined) throw refused(email)
      return token
    },
    async issue() {
      const hash = config.enabled ? await currentHash(db) : null
      return hash === null ? undefined : issueFor(hash, 'machine')
    },
    async end(token) {
      await db.run(SYSTEM, endToken(sha256(token)))
    },
    async resolve(token) {
      if (!config.enabled || !/^[0-9a-f]{64}$/.test(token)) return undefined
      const [found] = await db.rows<FoundToken>(SYSTEM, findToken(sha256(token)))
      if (!found || (found.via === 'password' && !config.shared_password)) return undefined
      const { id: tokenId, adminId, email, role, expiresAt } = found
      if (adminId === null || email === null || role === null)
        return { kind: 'admin', tokenId, role: 'owner', expiresAt }
      return { kind: 'admin', tokenId, role, adminId, email, expiresAt }
    },
  }
}
