import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chownTo, chownTree, initdbAccount, type SystemAccount } from './account.ts'
import { type Binaries, program } from './binaries.ts'
import { readIfThere } from './process.ts'

export const passwordFile = (dataDir: string): string => join(dataDir, 'postgres-password')

/**
 * The path of a directory that root opened and passed to another account as a descriptor. So the data directory and its
 * parents can stay 0700 and owned by root.
 */
export const inherited = (descriptor: number): string => `/proc/self/fd/${descriptor}`
export const passesDescriptors = (account: SystemAccount): boolean =>
  account !== undefined && process.platform === 'linux'

/** PostgreSQL does not inherit our environment, which may have PGPORT or secrets. */
export const cleanEnv = (): NodeJS.ProcessEnv =>
  process.platform === 'win32' ? process.env : { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' }

type ClusterOptions = {
  dataDir: string
  clusterDir: string
  binaries: Binaries
  account: SystemAccount
  log: (line: string) => void
}

/** Creates the cluster on the first run; later only checks that these binaries can run it. */
export async function ensureCluster(options: ClusterOptions): Promise<void> {
  const { dataDir, clusterDir, binaries, account, log } = options
  const major = readIfThere(join(clusterDir, 'PG_VERSION'))?.trim()
  if (major && readIfThere(join(clusterDir, 'global', 'pg_control')) !== undefined) {
    if (Number(major) !== binaries.major) throw new Error(otherVersion(clusterDir, major, binaries.version))
    return chownTree(clusterDir, account)
  }
  discardDrafts(dataDir)
  setAsideRemains(clusterDir, log)
  log(`creating a PostgreSQL ${binaries.version} cluster in ${clusterDir}`)
  const draft = join(dataDir, `postgres.new-${randomBytes(4).toString('hex')}`)
  mkdirSync(draft, { mode: 0o700 })
  const maker = initdbAccount(account)
  chownTo(draft, maker)
  await initdb({ ...options, account: maker }, draft)
  chownTree(draft, account)
  renameSync(draft, clusterDir)
}

const otherVersion = (clusterDir: string, made: string, running: string): string =>
  `${clusterDir} was made by PostgreSQL ${made} and cannot be run by ${running}: ` +
  `point database.embedded_bin_dir at a PostgreSQL ${made}, or move the data with pg_dump`

/** Left by a start that was killed during initdb. */
function discardDrafts(dataDir: string): void {
  for (const name of readdirSync(dataDir)) {
    if (name.startsWith('postgres.new-')) rmSync(join(dataDir, name), { recursive: true, force: true })
  }
}

/** An incomplete cluster is moved, not deleted, because it may hold data. */
function setAsideRemains(clusterDir: string, log: (line: string) => void): void {
  if (!existsSync(clusterDir)) return
  const aside = `${clusterDir}.incomplete-${new Date().toISOString().replace(/\D/g, '').slice(0, 14)}`
  renameSync(clusterDir, aside)
  log(`${clusterDir} is not a whole PostgreSQL cluster; moved it to ${aside}`)
}

async function initdb({ dataDir, binaries, account }: ClusterOptions, draft: string): Promise<void> {
  const args = ['-U', 'postgres', '-E', 'UTF8', ...locale(binaries.major), ...authentication(dataDir)]
  const descriptor = openSync(draft, 'r')
  try {
    const child = spawn(
      program(binaries, 'initdb'),
      ['-D', passesDescriptors(account) ? inherited(3) : draft, ...args],
      { ...account, cwd: '/', env: cleanEnv(), stdio: ['ignore', 'ignore', 'pipe', descriptor] },
    )
    let output = ''
    child.stderr?.on('data', (chunk) => {
      output += chunk
    })
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', resolve)
    })
    if (code !== 0) throw new Error(output.trim().replace(/\s+/g, ' ') || `exit code ${code}`)
  } catch (cause) {
    rmSync(draft, { recursive: true, force: true })
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`could not create the PostgreSQL cluster in ${dataDir}: ${reason}`, { cause })
  } finally {
    closeSync(descriptor)
  }
}

/** A sort order that updates of the system's libraries cannot change under existing indexes. */
function locale(major: number): string[] {
  if (major >= 17) return ['--locale-provider=builtin', '--builtin-locale=C.UTF-8']
  return [`--locale=${process.platform === 'linux' ? 'C.UTF-8' : 'C'}`]
}

/** Only our account can enter the socket's folder (0700). On Windows Node has no unix sockets, so a password is used. */
function authentication(dataDir: string): string[] {
  if (process.platform !== 'win32') return ['-A', 'trust']
  writeFileSync(passwordFile(dataDir), randomBytes(24).toString('base64url'), { mode: 0o600 })
  return ['-A', 'scram-sha-256', `--pwfile=${passwordFile(dataDir)}`]
}
