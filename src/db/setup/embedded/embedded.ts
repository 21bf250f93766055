import { chmodSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { accountFor, needsChown, type SystemAccount } from './account.ts'
import { freePort, prepareSocketDir, runDir, socketDirFor, socketUrl, tcpUrl } from './address.ts'
import { type Binaries, findBinaries } from './binaries.ts'
import { ensureCluster, passesDescriptors } from './cluster.ts'
import { extensionSettings, extensionsDir } from './extensions.ts'
import { type DataLock, lockDataDir } from './lock.ts'
import {
  launch,
  type Postmaster,
  type PostmasterOptions,
  runningPostmaster,
  stopPostmaster,
  waitUntilReady,
} from './postmaster.ts'
import { hasCode } from './process.ts'
import { requireWholeRestore } from './restored.ts'
import { supervise } from './supervise.ts'

export type EmbeddedOptions = {
  dataDir: string
  /** `bin` folder of an installed PostgreSQL to run instead of the one from npm; empty = none. */
  binDir?: string
  log(line: string): void
  /** More server settings, as `name: value` of postgresql.conf; an adopted PostgreSQL keeps its own. */
  settings?: Record<string, string>
  /** It is a restore that runs it, to recover what it has unpacked. */
  isRestoring?: true
}

export type Embedded = {
  /** For `connectionString` of `pg`, and for psql: the superuser, over the unix socket. Never changes. */
  url: string
  socketDir: string
  /** The current postmaster; changes when PostgreSQL is restarted. */
  readonly pid: number
  /** It was already running, because its last server was killed. */
  adopted: boolean
  version: string
  lock: DataLock
  stop(): Promise<void>
}

/**
 * Runs PostgreSQL for this server alone, in `<dataDir>/postgres`, created on the first start. It survives a kill -9 of
 * the server, and the next start adopts it. If PostgreSQL itself dies, it is restarted.
 * Tested on Linux; the code for macOS and Windows follows the contents of the packages and has not been run.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  let lock: DataLock | undefined
  try {
    lock = await lockDataDir(options.dataDir)
    if (!options.isRestoring) requireWholeRestore(options.dataDir)
    return await run({ ...options, dataDir: realpathSync(options.dataDir) }, lock)
  } catch (error) {
    lock?.release()
    if (!hasCode(error, 'EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ENOSPC')) throw error
    throw new Error(`the data directory ${options.dataDir} cannot be used: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

async function run({ dataDir, binDir, log, settings = {} }: EmbeddedOptions, lock: DataLock): Promise<Embedded> {
  const clusterDir = join(dataDir, 'postgres')
  const account = accountFor(clusterDir)
  // Where descriptors cannot be passed, the other account must be able to traverse the data directory.
  chmodSync(dataDir, account && !passesDescriptors(account) ? 0o711 : 0o700)
  const binaries = findBinaries(binDir, account)
  await endOtherOwners(clusterDir, account, binaries, log)
  await ensureCluster({ dataDir, clusterDir, binaries, account, log })

  const plan: Omit<PostmasterOptions, 'socketDir' | 'port'> = {
    clusterDir,
    binaries,
    account,
    settings: { ...extensionSettings(extensionsDir(dataDir, account, binaries.major), binaries.major), ...settings },
    logFile: join(dataDir, 'postgres.log'),
  }
  const onTcp = process.platform === 'win32'
  const current = await adoptable(clusterDir, log)
  const port = current?.port ?? (onTcp ? await freePort() : 5432)
  const socketDir = current ? socketDirOf(current, dataDir) : socketDirFor(dataDir, account)
  let isRestart = current !== undefined
  const start = async () => {
    prepareSocketDir(socketDir, account, isRestart)
    isRestart = true
    const child = await launch({ ...plan, socketDir, port }, log)
    return child.pid ?? 0
  }
  const postmaster = supervise(current?.pid ?? (await start()), start, log)
  if (current) log(`took over the running PostgreSQL ${binaries.version} (pid ${current.pid})`)

  return {
    url: onTcp ? tcpUrl(dataDir, port) : socketUrl(dataDir, socketDir),
    socketDir,
    get pid() {
      return postmaster.pid
    },
    adopted: current !== undefined,
    version: binaries.version,
    lock,
    async stop() {
      await postmaster.end()
      await stopPostmaster(clusterDir, postmaster.pid, binaries)
      if (socketDir !== runDir(dataDir)) rmSync(socketDir, { recursive: true, force: true })
      lock.release()
    },
  }
}

/** Before the owner of a cluster changes: a postmaster of the old owner could no longer read its files. */
async function endOtherOwners(
  clusterDir: string,
  account: SystemAccount,
  binaries: Binaries,
  log: (line: string) => void,
): Promise<void> {
  const found = needsChown(clusterDir, account) ? runningPostmaster(clusterDir) : undefined
  if (!found) return
  log(`PostgreSQL (pid ${found.pid}) runs under another account; starting it again under one of its own`)
  await stopPostmaster(clusterDir, found.pid, binaries)
}

async function adoptable(clusterDir: string, log: (line: string) => void): Promise<Postmaster | undefined> {
  const found = runningPostmaster(clusterDir)
  return found && (await waitUntilReady(clusterDir, found.pid, log)) ? runningPostmaster(clusterDir) : undefined
}

/** A descriptor's path is valid only inside PostgreSQL; it is the folder beside the data. */
const socketDirOf = ({ socketDir }: Postmaster, dataDir: string): string =>
  socketDir.startsWith('/proc/') ? runDir(dataDir) : socketDir
