import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolderNow } from './data-dir.ts'
import { readIfThere } from './process.ts'

/** What `svc restore` leaves in a data directory about where its data comes from. */
export type Restored = {
  backup: string
  restored_at: string
  /** Position and time of the last transaction, where PostgreSQL said it. */
  reached: { lsn: string | null; at: string | null }
  /** Until the server is taken over nothing leaves it. */
  drill: boolean
  /** Of the copied cluster, where it is not `postgres`. */
  database: string
  user: string
}

/** In a data directory. */
export const MARKER = 'restoring'
const marker = (dataDir: string): string => join(dataDir, MARKER)
const file = (dataDir: string): string => join(dataDir, 'restored.json')

/** From the first byte of a restore to its last. Throws where another one has marked the directory. */
export function markRestoring(dataDir: string): void {
  requireWholeRestore(dataDir)
  writeDurably(marker(dataDir), 'svc restore is writing here; a server does not start on it\n', 'wx')
  syncFolderNow(dataDir)
}

export function unmarkRestoring(dataDir: string): void {
  rmSync(marker(dataDir))
  syncFolderNow(dataDir)
}

/** A restore that was killed has left something that looks like a database and is none. */
export function requireWholeRestore(dataDir: string): void {
  if (readIfThere(marker(dataDir)) === undefined) return
  throw new Error(
    `${dataDir} is a restore that was not finished: unless svc restore still runs, delete the directory and run it again`,
  )
}

export function readRestored(dataDir: string): Restored | undefined {
  const text = readIfThere(file(dataDir))
  return text === undefined ? undefined : (JSON.parse(text) as Restored)
}

export function writeRestored(dataDir: string, restored: Restored): void {
  const draft = `${file(dataDir)}.new`
  writeDurably(draft, `${JSON.stringify(restored, null, 2)}\n`)
  renameSync(draft, file(dataDir))
  syncFolderNow(dataDir)
}

function writeDurably(path: string, text: string, flags: 'w' | 'wx' = 'w'): void {
  const descriptor = openSync(path, flags, 0o600)
  try {
    writeFileSync(descriptor, text)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
