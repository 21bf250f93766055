import { createHash } from 'node:crypto'
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chownTo, type SystemAccount } from './account.ts'
import { passwordFile } from './cluster.ts'
import { readIfThere } from './process.ts'
import { readRestored } from './restored.ts'

const socketName = '.s.PGSQL.5432'
/** sun_path holds 108 bytes on Linux and 104 on macOS. */
const longestSocketPath = 100

export const runDir = (dataDir: string): string => join(dataDir, 'run')

/** The folder of the socket: beside the data, or under the temporary directory if that path is too long. */
export function socketDirFor(dataDir: string, account: SystemAccount): string {
  const beside = runDir(dataDir)
  return Buffer.byteLength(join(beside, socketName)) <= longestSocketPath ? beside : shortDir(dataDir, account)
}

/** Settings of PostgreSQL that hold while an archive runs, and not in a copy of the cluster. */
export const ARCHIVE_SETTINGS = 'archive.conf'

/** Where PostgreSQL comes back after a crash, the archive still runs. */
export function prepareSocketDir(dir: string, account: SystemAccount, isRestart: boolean): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  chmodSync(dir, 0o700)
  chownTo(dir, account)
  // No PostgreSQL runs on this data now, so a socket and its lock are stale.
  for (const name of readdirSync(dir)) {
    if (name !== ARCHIVE_SETTINGS || !isRestart) rmSync(join(dir, name), { force: true })
  }
}

function shortDir(dataDir: string, account: SystemAccount): string {
  const owner = account?.uid ?? process.getuid?.()
  const dir = join(tmpdir(), `svc-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`)
  const stat = lstatSync(dir, { throwIfNoEntry: false })
  // A name in a shared folder can be guessed: never use a folder that another user created.
  return !stat || (stat.isDirectory() && stat.uid === owner) ? dir : mkdtempSync(join(tmpdir(), 'svc-'))
}

/** `host` is a parameter, because `pg` and libpq take a socket folder there; the host name is ignored. */
export const socketUrl = (dataDir: string, dir: string): string =>
  `postgres://${superuser(dataDir)}@localhost/${databaseOf(dataDir)}?host=${encodeURIComponent(dir)}`

export const tcpUrl = (dataDir: string, port: number): string =>
  `postgres://${superuser(dataDir)}:${readIfThere(passwordFile(dataDir)) ?? ''}@127.0.0.1:${port}/${databaseOf(dataDir)}`

/** A cluster that was restored from a database elsewhere keeps its names. */
const superuser = (dataDir: string): string => encodeURIComponent(readRestored(dataDir)?.user ?? 'postgres')
const databaseOf = (dataDir: string): string => encodeURIComponent(readRestored(dataDir)?.database ?? 'postgres')

export async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve))
  const address = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  return typeof address === 'object' && address ? address.port : 5432
}
