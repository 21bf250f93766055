import { SYSTEM } from '../../core/identity.ts'
import { randomHex } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { endAllTokens, insertPasswordHash, passwordHash, replacePasswordHash } from './sql.ts'

export type AdminPasswords = {
  hash(password: string): Promise<string>
  /** Takes the same time when `encoded` is undefined. */
  verify(password: string, encoded: string | undefined): Promise<boolean>
}

/** Remembers over restarts that a password matches a hash, because verifying it again is expensive. */
export type PasswordNote = {
  matches(password: string, hash: string): boolean
  remember(password: string, hash: string): void
}

type Deps = { db: Pick<Db, 'fly' | 'run' | 'tx'>; passwords: AdminPasswords; note?: PasswordNote | undefined }

export const currentHash = (db: Pick<Db, 'fly'>): Promise<string | null> => db.fly(SYSTEM, passwordHash())

/**
 * Stores the configured password, or generates one, before the server listens. Every node checks logins against the
 * hash in the database. Returns the password if this process generated it.
 */
export async function syncPassword(deps: Deps, configured: string): Promise<string | undefined> {
  if (configured !== '') {
    await setPassword(deps, configured)
    return undefined
  }
  if ((await currentHash(deps.db)) !== null) return undefined
  const generated = randomHex(16)
  const hash = await deps.passwords.hash(generated)
  const inserted = await deps.db.run(SYSTEM, insertPasswordHash(hash))
  return inserted === 1 ? generated : undefined
}

/** Does nothing if the password is unchanged; otherwise also ends every admin token. */
export async function setPassword({ db, passwords, note }: Deps, password: string): Promise<void> {
  for (;;) {
    const previous = await currentHash(db)
    if (previous !== null && note?.matches(password, previous)) return
    if (previous !== null && (await passwords.verify(password, previous))) return note?.remember(password, previous)
    const hash = await passwords.hash(password)
    const isSet = await db.tx(SYSTEM, async (tx) => {
      if ((await tx.run(replacePasswordHash(previous, hash))) === 0) return false
      await tx.run(endAllTokens())
      return true
    })
    if (isSet) return note?.remember(password, hash)
  }
}
