import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, chownSync, cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { accountFor } from '../../src/db/setup/embedded/account.ts'
import { findBinaries, program } from '../../src/db/setup/embedded/binaries.ts'
import { startEmbedded } from '../../src/db/setup/embedded/embedded.ts'
import { atEnd } from './at-end.ts'
import { eventually, PATIENCE_MS } from './eventually.ts'
import { freePort } from './free-port.ts'

/** One PostgreSQL of several that replicate, on a TCP port. */
export type Node = {
  readonly port: number
  /** `postgres://postgres@127.0.0.1:<port>/postgres` */
  readonly url: string
  start(): Promise<void>
  /** SIGINT: fast shutdown. SIGQUIT and SIGKILL: as a crash. */
  stop(signal?: NodeJS.Signals): Promise<void>
  /** SIGSTOP or SIGCONT for every process of it. */
  signalAll(signal: NodeJS.Signals): void
  promote(): void
  /** Makes it a standby of another node at its next start. */
  follow(other: Node): void
  // biome-ignore lint/suspicious/noExplicitAny: tests look into rows freely
  sql(text: string, values?: unknown[]): Promise<any[]>
}

type NodeOptions = { settings?: Record<string, string> }

/** A primary and its standbys, which stream from it. The first one is the primary. */
export async function startReplicated(count = 2, { settings = {} }: NodeOptions = {}): Promise<Node[]> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-replicated-'))
  chmodSync(folder, 0o755)
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  const made = await startEmbedded({ dataDir: join(folder, 'made'), log: () => {} })
  await made.stop()
  const ports: number[] = []
  while (ports.length < count) ports.push(await freePort())
  const nodes = ports.map((port, i) =>
    nodeOn(join(folder, `node${i}`), port, settings, join(folder, 'made', 'postgres')),
  )
  const [first, ...standbys] = nodes as [Node, ...Node[]]
  for (const standby of standbys) standby.follow(first)
  for (const node of nodes) await node.start()
  return nodes
}

/** The connection string of all of them. */
export const urlOf = (nodes: readonly Node[]): string =>
  `postgres://postgres@${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}/postgres`

/** Until the standby has replayed all that the primary wrote. */
export async function caughtUp(primary: Node, standby: Node): Promise<void> {
  const [{ lsn }] = await primary.sql('select pg_current_wal_insert_lsn() as lsn')
  await eventually(async () => {
    const [{ done }] = await standby.sql('select pg_last_wal_replay_lsn() >= $1::pg_lsn as done', [lsn])
    if (done !== 't') throw new Error('the standby is behind')
  })
}

function nodeOn(dir: string, port: number, settings: Record<string, string>, template: string): Node {
  cpSync(template, dir, { recursive: true })
  const account = accountFor(template)
  if (account) {
    const own = (path: string): void => chownSync(path, account.uid, account.gid)
    for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) own(join(dir, name))
    own(dir)
  }
  chmodSync(dir, 0o700)
  const binaries = findBinaries(undefined, account)
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  const all: Record<string, string> = {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    wal_level: 'replica',
    max_wal_senders: '10',
    wal_keep_size: '256MB',
    hot_standby: 'on',
    max_standby_streaming_delay: '1s',
    wal_retrieve_retry_interval: '200ms',
    ...settings,
  }
  const args = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  let child: ChildProcess | undefined
  let exited = Promise.resolve()
  const write = (name: string, text: string): void => {
    writeFileSync(join(dir, name), text)
    if (account) chownSync(join(dir, name), account.uid, account.gid)
  }
  const node: Node = {
    port,
    url,
    async start() {
      let log = ''
      const started = spawn(program(binaries, 'postgres'), ['-D', dir, ...args], {
        ...account,
        cwd: '/',
        env: { PATH: process.env['PATH'], LC_ALL: 'C' },
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      child = started
      started.stderr?.on('data', (chunk) => {
        log = (log + chunk).slice(-4000)
      })
      exited = new Promise((resolve) => started.once('exit', () => resolve()))
      const failed = exited.then(() => {
        throw new Error(`PostgreSQL did not start: ${log}`)
      })
      await Promise.race([failed, eventually(() => node.sql('select 1'))])
      failed.catch(() => {}) // its end, later
    },
    async stop(signal = 'SIGINT') {
      if (child?.exitCode === null && child.signalCode === null) child.kill(signal)
      await exited
      child = undefined
    },
    signalAll(signal) {
      if (!child?.pid || child.exitCode !== null) return
      const children = execFileSync('ps', ['-o', 'pid=', '--ppid', String(child.pid)], { encoding: 'utf8' })
      for (const pid of [...children.split('\n').filter(Boolean).map(Number), child.pid]) process.kill(pid, signal)
    },
    promote() {
      execFileSync(program(binaries, 'pg_ctl'), ['promote', '-D', dir, '-w'], { ...account, cwd: '/', stdio: 'ignore' })
    },
    follow(other) {
      write('standby.signal', '')
      write(
        'postgresql.auto.conf',
        `primary_conninfo = 'host=127.0.0.1 port=${other.port} user=postgres application_name=node${port}'\n`,
      )
    },
    async sql(text, values) {
      const client = await openConnection({ url, connectTimeoutMs: PATIENCE_MS })
      try {
        const result = await client.query(text, values)
        return Array.isArray(result) ? (result.at(-1)?.rows ?? []) : result.rows
      } finally {
        await client.end()
      }
    },
  }
  atEnd(async () => {
    if (child) node.signalAll('SIGCONT')
    await node.stop('SIGQUIT')
  })
  return node
}
