import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { setNiceOfSession } from '../../src/db/protocol/local-backend.ts'
import { freePort } from '../../test/kit/free-port.ts'
import type { BenchUser } from './database.ts'
import type { Load, Measured } from './load.ts'

const here = (name: string) => new URL(`../${name}`, import.meta.url).pathname

export function script(name: string, args: string[] = [], env: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(process.execPath, ['--import', 'tsx', here(name), ...args], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
}

/** A script that stands for other machines, in a session of its own with that nice value (sched(7), "The autogroup feature"). */
export function elsewhere(name: string, nice: number): ChildProcess {
  const child = startNode('service', ['--import', 'tsx', here(name)], { stdio: ['pipe', 'pipe', 'inherit'] })
  if (child.pid) setNiceOfSession(child.pid, nice)
  return child
}

/** No terminal ends what has a session of its own. */
const services = new Set<ChildProcess>()
process.once('SIGINT', () => process.exit(130))
process.once('exit', () => {
  for (const service of services) service.kill('SIGKILL')
})

/**
 * A server, ours or the reference. As a service it has a session of its own: Linux shares processors between sessions first
 * (sched(7), "The autogroup feature"), and each backend of PostgreSQL is one. Started from a terminal it has that of this process,
 * and no larger share.
 */
export type StartedFrom = 'service' | 'terminal'

function startNode(from: StartedFrom, args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(process.execPath, args, { ...options, detached: from === 'service' })
  services.add(child)
  child.once('exit', () => services.delete(child))
  return child
}

/** Resolves with the first line that matches. */
function firstLine(child: ChildProcess, pattern: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let text = ''
    child.stdout?.on('data', (chunk) => {
      text += chunk
      const found = pattern.exec(text)
      if (found) resolve(found)
    })
    child.once('exit', (code) => reject(new Error(`${child.spawnargs.join(' ')} ended with ${code}: ${text}`)))
  })
}

export type Stage = {
  port: number
  pid: number
  stop(): Promise<void>
  kill(): void
  residentBytes(): number
  /** The most it ever was; undefined where the system does not tell. */
  peakBytes(): number | undefined
}

const stage = (child: ChildProcess, port: number): Stage => ({
  port,
  pid: child.pid ?? 0,
  stop: () =>
    new Promise((resolve) => {
      child.once('exit', () => resolve())
      child.kill('SIGTERM')
    }),
  kill: () => void child.kill('SIGKILL'),
  residentBytes: () => residentBytes(child.pid ?? 0),
  peakBytes: () => peakBytes(child.pid ?? 0),
})

function peakBytes(pid: number): number | undefined {
  const status = `/proc/${pid}/status`
  const found = existsSync(status) && /VmHWM:\s+(\d+) kB/.exec(readFileSync(status, 'utf8'))
  return found ? Number(found[1]) * 1024 : undefined
}

export function residentBytes(pid: number): number {
  const status = `/proc/${pid}/status`
  const told = existsSync(status) && /VmRSS:\s+(\d+) kB/.exec(readFileSync(status, 'utf8'))
  if (told) return Number(told[1]) * 1024
  const { stdout } = spawnSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })
  return Number(stdout) * 1024
}

const TICKS_PER_SECOND = 100

/** Milliseconds of processor time, user and system, of a process and, with `family`, of its children, the dead ones too. */
export function processorMs(pid: number, family = false): number {
  const of = (id: string | number): { parent: number; own: number; ended: number } | undefined => {
    try {
      const fields = readFileSync(`/proc/${id}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')
      const both = (at: number): number => Number(fields[at]) + Number(fields[at + 1])
      return { parent: Number(fields[1]), own: both(11), ended: both(13) }
    } catch {
      return undefined // it ended meanwhile, or the system does not tell
    }
  }
  const self = of(pid)
  if (!self) return Number.NaN
  const children = family ? readdirSync('/proc').filter((name) => /^\d+$/.test(name) && of(name)?.parent === pid) : []
  const ticks = children.reduce((sum, id) => sum + (of(id)?.own ?? 0), self.own + (family ? self.ended : 0))
  return (ticks * 1000) / TICKS_PER_SECOND
}

/** The bare handler of kit/bare.ts. */
export const startBare = (setup: { url: string; users: readonly BenchUser[] }): Promise<Stage> =>
  startBareScript('kit/bare.ts', setup, 'terminal')

export async function startBareScript(name: string, setup: object, from: StartedFrom = 'service'): Promise<Stage> {
  const child = startNode(from, ['--import', 'tsx', here(name)], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin?.end(JSON.stringify(setup))
  const [, port] = await firstLine(child, /(\d+)\n/)
  return stage(child, Number(port))
}

/** Built first, so that what is measured is what is here. */
export const build = () =>
  spawnSync(process.execPath, [here('../scripts/build.js')], { stdio: ['ignore', 'ignore', 'inherit'] })

/** The real server, as built in dist/. */
export async function startBuilt(
  databaseUrl: string,
  env: Record<string, string> = {},
  from: StartedFrom = 'service',
): Promise<Stage> {
  build()
  return startOn(await freePort(), databaseUrl, env, from)
}

/** The same on a port of its own, and without building it. */
export async function startOn(
  port: number,
  databaseUrl: string,
  env: Record<string, string> = {},
  from: StartedFrom = 'service',
): Promise<Stage> {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const child = startNode(from, [here('../dist/main.js'), 'start'], {
    cwd: dataDir,
    env: {
      ...process.env,
      SVC_DATA_DIR: dataDir,
      SVC_DATABASE_URL: databaseUrl,
      SVC_SERVER_PORT: String(port),
      SVC_ADMIN_PASSWORD: 'bench',
      SVC_LOG_LEVEL: 'info',
      ...env,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  for (let tries = 0; ; tries++) {
    const ok = await fetch(`http://127.0.0.1:${port}/health`).then(
      (answer) => answer.ok,
      () => false,
    )
    if (ok) return stage(child, port)
    if (child.exitCode !== null || tries > 300) throw new Error('the server did not start')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** The load generator in a process of its own, so that it does not share a thread with what it measures. */
export async function load(options: Load): Promise<Measured> {
  const child = elsewhere('kit/load.ts', 0)
  child.stdin?.end(JSON.stringify(options))
  const [text] = await firstLine(child, /\{.*\}/)
  return JSON.parse(text) as Measured
}

/** See neighbour.ts. */
export function startNeighbour(port: number) {
  const child = script('kit/neighbour.ts', [String(port)])
  const answers = createInterface(child.stdout as Readable)[Symbol.asyncIterator]()
  return {
    /** Milliseconds of its longest wait since it was last asked. */
    longestWait: async (): Promise<number> => {
      child.stdin?.write('\n')
      return Number((await answers.next()).value)
    },
    stop: () => child.kill(),
  }
}

export const findPgbench = (): string | undefined => findPostgresTool('pgbench')

/** `pgbench`, `psql`: PostgreSQL's own clients, as Debian or the path has them. */
export function findPostgresTool(name: string): string | undefined {
  const installed = '/usr/lib/postgresql'
  const versions = existsSync(installed) ? readdirSync(installed) : []
  const paths = [
    ...versions.map((version) => join(installed, version, 'bin')),
    ...(process.env['PATH'] ?? '').split(':'),
  ]
  return paths.map((path) => join(path, name)).find((path) => existsSync(path))
}

/** The same statements without any HTTP; transactions per second. */
export async function pgbench(
  binary: string,
  databaseUrl: string,
  lines: string[],
  seconds: number,
  clients = 8,
): Promise<number> {
  const file = join(mkdtempSync(join(tmpdir(), 'svc-pgbench-')), 'script.sql')
  writeFileSync(file, `${lines.join('\n')}\n`)
  const args = [
    '-n',
    '-M',
    'prepared',
    '-c',
    String(clients),
    '-j',
    '2',
    '-T',
    String(seconds),
    '-f',
    file,
    databaseUrl,
  ]
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [, tps] = await firstLine(child, /tps = ([\d.]+)/)
  return Number(tps)
}
