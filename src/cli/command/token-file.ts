import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeDataDir } from '../../db/setup/embedded/data-dir.ts'

/** Holds an admin token for the command line tool of the same account; as powerful as the admin password. */
const fileIn = (dataDir: string): string => join(dataDir, 'admin-token')

export function readToken(dataDir: string): string | undefined {
  try {
    return readFileSync(fileIn(dataDir), 'utf8').trim() || undefined
  } catch {
    return undefined
  }
}

export function writeToken(dataDir: string, token: string): void {
  makeDataDir(dataDir)
  const next = `${fileIn(dataDir)}.${process.pid}`
  writeFileSync(next, `${token}\n`, { mode: 0o600 })
  renameSync(next, fileIn(dataDir))
}

/** Keeps the file when another server has written its own token since. */
export function removeToken(dataDir: string, token: string): void {
  if (readToken(dataDir) === token) rmSync(fileIn(dataDir), { force: true })
}
