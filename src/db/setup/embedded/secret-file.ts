import { closeSync, fsyncSync, linkSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolderNow } from './data-dir.ts'
import { hasCode, readIfThere } from './process.ts'

/** A secret beside the cluster, not in it, so that a copy of the database alone decrypts nothing. */
export type SecretFile = {
  read(): string | undefined
  /** Stores it unless there is one already, and returns the stored one. */
  keep(secret: string): string
}

export function rootSecretFile(dataDir: string): SecretFile {
  const file = join(dataDir, 'root-secret')
  const read = (): string | undefined => readIfThere(file)?.trim() || undefined
  return {
    read,
    keep(secret) {
      const draft = `${file}.${process.pid}`
      const descriptor = openSync(draft, 'w', 0o600)
      try {
        writeFileSync(descriptor, `${secret}\n`)
        fsyncSync(descriptor)
      } finally {
        closeSync(descriptor)
      }
      try {
        // Unlike a rename, a link never replaces the file of another process.
        linkSync(draft, file)
        // Encrypted data depends on it.
        syncFolderNow(dataDir)
      } catch (error) {
        if (!hasCode(error, 'EEXIST')) throw error
      } finally {
        rmSync(draft, { force: true })
      }
      return read() ?? secret
    },
  }
}
