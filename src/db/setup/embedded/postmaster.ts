import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { sleep } from '../../../core/clock.ts'
import type { SystemAccount } from './account.ts'
import { type Binaries, program } from './binaries.ts'
import { cleanEnv, inherited, passesDescriptors } from './cluster.ts'
import { isAlive, readIfThere } from './process.ts'

/** postmaster.pid, line by line: pid, data directory, start time, port, socket folder, address, memory, status. */
export type Postmaster = { pid: number; dataDir: string; port: number; socketDir: string; status: string }

const pidFile = (clusterDir: string) => join(clusterDir, 'postmaster.pid')

export function readPostmaster(clusterDir: string): Postmaster | undefined {
  const [pid, dataDir = '', , port, socketDir = '', , , status = ''] = (readIfThere(pidFile(clusterDir)) ?? '').split(
    '\n',
  )
  return pid ? { pid: Number(pid), dataDir, port: Number(port), socketDir, status: status.trim() } : undefined
}

/** Identifies the directory in the command line of the postmaster, which any account may read. */
function nameOf(clusterDir: string): string {
  const { dev, ino } = statSync(clusterDir)
  return `svc-${dev}-${ino}`
}

/** Whether the process is the postmaster of this directory, not of a copy, nor another program with its pid. */
function isPostmasterOf(clusterDir: string, { pid, dataDir }: Postmaster): boolean {
  if (!isAlive(pid)) return false
  if (process.platform !== 'linux') return dataDir === clusterDir
  try {
    const [cwd, own] = [statSync(`/proc/${pid}/cwd`), statSync(clusterDir)]
    return cwd.dev === own.dev && cwd.ino === own.ino
  } catch {
    // Without CAP_SYS_PTRACE, as in a container, root may not read another account's cwd.
    return (readIfThere(`/proc/${pid}/cmdline`) ?? '').includes(nameOf(clusterDir))
  }
}

/** The postmaster that already runs on this directory, e.g. because its server was killed. */
export function runningPostmaster(clusterDir: string): Postmaster | undefined {
  const found = readPostmaster(clusterDir)
  if (!found) return undefined
  if (isPostmasterOf(clusterDir, found)) return found
  // PostgreSQL checks only whether the pid exists, so a reused one would keep it from starting.
  // It detects old processes that still run by their shared memory.
  if (isAlive(found.pid)) rmSync(pidFile(clusterDir), { force: true })
  return undefined
}

export type PostmasterOptions = {
  clusterDir: string
  socketDir: string
  port: number
  logFile: string
  binaries: Binaries
  account: SystemAccount
  settings: Record<string, string>
}

/** Detached, so that Ctrl-C reaches only the server, which stops PostgreSQL after its last request. */
function spawnPostmaster({
  clusterDir,
  socketDir,
  port,
  logFile,
  binaries,
  account,
  settings,
}: PostmasterOptions): ChildProcess {
  const byDescriptor = passesDescriptors(account)
  const onTcp = process.platform === 'win32'
  const all: Record<string, string> = {
    // Keeps statements and values of callers out of the log, so that callers cannot make it grow.
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_checkpoints: 'off',
    // What a server that was killed had begun ends with it, and its locks too.
    ...(process.platform === 'linux' && { client_connection_check_interval: '1s' }),
    cluster_name: nameOf(clusterDir),
    ...settings,
    port: String(port),
    listen_addresses: onTcp ? '127.0.0.1' : '',
    unix_socket_directories: onTcp ? '' : byDescriptor && isBeside(clusterDir, socketDir) ? inherited(4) : socketDir,
    unix_socket_permissions: '0700',
  }
  const args = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const [cluster, socket, log] = [openSync(clusterDir, 'r'), openSync(socketDir, 'r'), openSync(logFile, 'a', 0o600)]
  const child = spawn(program(binaries, 'postgres'), ['-D', byDescriptor ? inherited(3) : clusterDir, ...args], {
    ...account,
    cwd: '/',
    env: cleanEnv(),
    detached: true,
    stdio: ['ignore', log, log, cluster, socket],
  })
  for (const descriptor of [cluster, socket, log]) closeSync(descriptor)
  child.unref()
  return child
}

const isBeside = (clusterDir: string, socketDir: string) => join(clusterDir, '..', 'run') === socketDir

/** Starts PostgreSQL and resolves when it accepts connections, after recovery. */
export async function launch(options: PostmasterOptions, log: (line: string) => void): Promise<ChildProcess> {
  const deadline = Date.now() + 30_000
  for (;;) {
    keepLogSmall(options.logFile)
    const before = statSync(options.logFile, { throwIfNoEntry: false })?.size ?? 0
    const child = spawnPostmaster(options)
    const failure = await readyOrGone(options.clusterDir, child, log)
    if (failure === undefined) return child
    const output = readFileSync(options.logFile).subarray(before).toString()
    // After kill -9 of the postmaster its busy backends run on for a while; no other postmaster may start until they end.
    const busy = /pre-existing shared memory block|lock file ".*" already exists/.test(output)
    if (!busy || Date.now() > deadline) {
      const reason = output.match(/FATAL: +(.*)/)?.[1] ?? (output.trim().split('\n').at(-1) || failure)
      throw new Error(`PostgreSQL did not start: ${reason} (log: ${options.logFile})`)
    }
    await sleep(50)
  }
}

async function readyOrGone(clusterDir: string, child: ChildProcess, log: (line: string) => void) {
  let failure: string | undefined
  child.once('error', (error) => {
    failure = error.message
  })
  child.once('exit', (code, signal) => {
    failure ??= `it ended with ${signal ?? `code ${code}`}`
  })
  const ready = () => {
    const now = readPostmaster(clusterDir)
    return now?.pid === child.pid && now?.status === 'ready'
  }
  await until(() => failure !== undefined || ready(), log)
  return failure
}

/** Waits for a postmaster that is starting, recovering or stopping; false when it has ended. */
export async function waitUntilReady(clusterDir: string, pid: number, log: (line: string) => void): Promise<boolean> {
  await until(() => !isAlive(pid) || readPostmaster(clusterDir)?.status === 'ready', log)
  return isAlive(pid)
}

async function until(done: () => boolean, log: (line: string) => void): Promise<void> {
  let reminder = Date.now() + 5_000
  while (!done()) {
    await sleep(3)
    if (Date.now() < reminder) continue
    log('waiting for PostgreSQL to recover its data')
    reminder = Date.now() + 30_000
  }
}

/** Fast shutdown; if that hangs, immediate shutdown, after which the next start replays the WAL. */
export async function stopPostmaster(clusterDir: string, pid: number, binaries: Binaries): Promise<void> {
  for (const [signal, mode, seconds] of [
    ['SIGINT', 'fast', 20],
    ['SIGQUIT', 'immediate', 5],
  ] as const) {
    if (process.platform === 'win32') {
      spawnSync(program(binaries, 'pg_ctl'), ['stop', '-D', clusterDir, '-m', mode, '-W'])
    } else if (isAlive(pid)) {
      process.kill(pid, signal)
    }
    const deadline = Date.now() + seconds * 1000
    while (isAlive(pid) && Date.now() < deadline) await sleep(3)
    if (!isAlive(pid)) return
  }
  throw new Error(`PostgreSQL (pid ${pid}, ${clusterDir}) does not stop; its data is safe, end it by hand`)
}

function keepLogSmall(logFile: string): void {
  if ((statSync(logFile, { throwIfNoEntry: false })?.size ?? 0) > 10_000_000) renameSync(logFile, `${logFile}.1`)
}
