import { createHmac } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { equalInConstantTime } from '../core/secret.ts'
import type { PasswordNote } from '../features/admin/password.ts'

/**
 * Remembers in a file of the data directory that a password matches a hash, so that a start need not hash again. The HMAC
 * key comes from the root secret, which is stored elsewhere, so a copy of the file does not help to guess the password.
 */
export function passwordNote(dataDir: string, key: Buffer): PasswordNote {
  const file = join(dataDir, 'admin-password-note')
  const noteOf = (password: string, hash: string): string =>
    createHmac('sha256', key).update(`${hash}\n${password}`).digest('hex')
  return {
    matches(password, hash) {
      try {
        return equalInConstantTime(readFileSync(file, 'utf8'), noteOf(password, hash))
      } catch {
        return false
      }
    },
    remember(password, hash) {
      if (!existsSync(dataDir)) return
      try {
        const draft = `${file}.${process.pid}`
        writeFileSync(draft, noteOf(password, hash), { mode: 0o600 })
        renameSync(draft, file)
      } catch {
        // The next start hashes again.
      }
    },
  }
}
