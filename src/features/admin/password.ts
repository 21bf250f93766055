import { SYSTEM } from '../../core/identity.ts'
import { randomHex } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { endAllTokens, insertPasswordHash, passwordHash, replacePasswordHash } from './sql.ts'

export type AdminPasswords = {
  hash(password: string): Promise<string>
  /** Takes as long without a stored hash. */
  verify(password: string, encoded: string | undefined): Promise<boolean>
}

/** That a password fits a hash, kept from one start to the next: finding it out again takes a thread and its memory. */
export type PasswordNote = { fits(password: string, hash: string): boolean; keep(password: string, hash: string): void }

type Deps = { db: Pick<Db, 'fly' | 'run' | 'tx'>; passwords: AdminPasswords; note?: PasswordNote | undefined }

export const currentHash = (db: Pick<Db, 'fly'>): Promise<string | null> => db.fly(SYSTEM, passwordHash())

/**
 * Brings the stored password in line with the configuration, before the server listens. The hash in the database is
 * what logins are checked against on every node. Returns the password that this process generated, if it did.
 */
export async function settlePassword(deps: Deps, configured: string): Promise<string | undefined> {
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

/** Does nothing when this already is the password; otherwise every admin token dies with the old one. */
export async function setPassword({ db, passwords, note }: Deps, password: string): Promise<void> {
  for (;;) {
    const previous = await currentHash(db)
    if (previous !== null && note?.fits(password, previous)) return
    if (previous !== null && (await passwords.verify(password, previous))) return note?.keep(password, previous)
    const hash = await passwords.hash(password)
    const isSet = await db.tx(SYSTEM, async (tx) => {
      if ((await tx.run(replacePasswordHash(previous, hash))) === 0) return false
      await tx.run(endAllTokens())
      return true
    })
    if (isSet) return note?.keep(password, hash)
  }
}
