import { AppError, unauthorized } from '../../core/errors.ts'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { type AdminPasswords, currentHash } from './password.ts'
import { endToken, findToken, forgetExpiredTokens, insertToken } from './sql.ts'

export type AdminTokens = {
  /** 401 unless the password is right. */
  login(password: string): Promise<string>
  /** A token for the server's own command line tool; undefined while admin access is off. */
  issue(): Promise<string | undefined>
  end(token: string): Promise<void>
  resolve(token: string): Promise<Extract<Identity, { kind: 'admin' }> | undefined>
}

type Deps = {
  db: Db
  passwords: AdminPasswords
  config: { enabled: boolean; token_duration: number }
}

/** No admin password is longer (docs/config.md), so longer input is refused before hashing. */
const MAX_PASSWORD_BYTES = 1024

export function createAdminTokens({ db, passwords, config }: Deps): AdminTokens {
  async function issueFor(hash: string): Promise<string | undefined> {
    const token = randomHex(32)
    const inserted = await db.run(SYSTEM, [
      forgetExpiredTokens(),
      insertToken(sha256(token), config.token_duration, hash),
    ])
    return inserted === 1 ? token : undefined
  }

  return {
    async login(password) {
      if (!config.enabled) throw new AppError('feature_disabled', 'admin auth not configured')
      if (Buffer.byteLength(password) > MAX_PASSWORD_BYTES)
        throw unauthorized('invalid password', 'invalid_credentials')
      const hash = (await currentHash(db)) ?? undefined
      const isRight = await passwords.verify(password, hash)
      const token = isRight && hash !== undefined ? await issueFor(hash) : undefined
      if (token === undefined) throw unauthorized('invalid password', 'invalid_credentials')
      return token
    },
    async issue() {
      const hash = config.enabled ? await currentHash(db) : null
      return hash === null ? undefined : issueFor(hash)
    },
    async end(token) {
      await db.run(SYSTEM, endToken(sha256(token)))
    },
    async resolve(token) {
      if (!config.enabled || !/^[0-9a-f]{64}$/.test(token)) return undefined
      const [found] = await db.rows<{ id: string; expiresAt: number }>(SYSTEM, findToken(sha256(token)))
      return found && { kind: 'admin', tokenId: found.id, expiresAt: found.expiresAt }
    },
  }
}
