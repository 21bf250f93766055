import { closeSync, fsyncSync, linkSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { hasCode, readIfThere } from './process.ts'

/** A secret beside the cluster, not inside it: a copy of the database alone then opens nothing. */
export type SecretFile = {
  read(): string | undefined
  /** Writes it down unless there is one already, and returns the one that is there. */
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
        // Unlike a rename, a link never replaces what another process has put there meanwhile.
        linkSync(draft, file)
        syncFolder(dataDir)
      } catch (error) {
        if (!hasCode(error, 'EEXIST')) throw error
      } finally {
        rmSync(draft, { force: true })
      }
      return read() ?? secret
    },
  }
}

/** The name has to survive a power cut too: whatever is encrypted next depends on it. */
function syncFolder(folder: string): void {
  if (process.platform === 'win32') return
  const descriptor = openSync(folder, 'r')
  fsyncSync(descriptor)
  closeSync(descriptor)
}
