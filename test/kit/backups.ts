import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BackupDetails, newBackupId, objectOf, writeRecord } from '../../src/db/backup/stored/records.ts'
import { Seals } from '../../src/db/backup/stored/seal.ts'
import { DiskTarget } from '../../src/db/backup/target/disk-target.ts'
import { atEnd } from './at-end.ts'
import { freePort } from './free-port.ts'
import { client, eventually, type InProcessServer, startServer, type TestServer } from './kit.ts'
import { svc as program } from './programs.ts'

export type Ran = { code: number | null; out: string; err: string }

/** A folder of the test's own. */
export function testFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-backup-'))
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Runs `svc …`; configuration as dotted keys. */
export function runSvc(args: readonly string[], config: Record<string, unknown> = {}): Promise<Ran> {
  const env: NodeJS.ProcessEnv = { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'] }
  for (const [key, value] of Object.entries(config))
    env[`SVC_${key.replaceAll('.', '_').toUpperCase()}`] = String(value)
  const child = spawn(process.execPath, [...program, ...args], { cwd: tmpdir(), env })
  const ran: Ran = { code: null, out: '', err: '' }
  child.stdout.on('data', (chunk) => {
    ran.out += chunk
  })
  child.stderr.on('data', (chunk) => {
    ran.err += chunk
  })
  return new Promise((resolve) => child.once('close', (code) => resolve({ ...ran, code })))
}

/** A server in this process with an embedded database of its own. */
export function startEmbeddedServer(dataDir: string, config: Record<string, unknown> = {}): Promise<InProcessServer> {
  return startServer({
    on: { databaseUrl: '' },
    config: { data_dir: dataDir, 'database.url': '', 'storage.local_path': join(dataDir, 'storage'), ...config },
  })
}

/** Rows as arrays, through the API of the server. */
export async function query(api: Pick<InProcessServer, 'call'>, text: string): Promise<unknown[][]> {
  const { status, body } = await api.call('POST /api/admin/sql', { as: 'admin', json: { query: text } })
  if (status !== 200) throw new Error(`${text}: ${JSON.stringify(body)}`)
  return body.rows
}

export async function upload(
  api: Pick<InProcessServer, 'url' | 'adminToken'>,
  name: string,
  text: string,
): Promise<number> {
  const form = new FormData()
  form.set('file', new Blob([text], { type: 'text/plain' }), name)
  const response = await fetch(`${api.url}/api/storage/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${await api.adminToken()}` },
    body: form,
  })
  await response.arrayBuffer()
  return response.status
}

/** The record of a backup that has no data. */
export async function plantBackup(
  to: string,
  passphrase: string,
  change: Partial<BackupDetails> = {},
): Promise<string> {
  const now = new Date().toISOString()
  const id = newBackupId(new Date(change.started_at ?? now))
  const details: BackupDetails = {
    ...{ id, version: 1, state: 'good', kind: 'physical', started_at: now, finished_at: now, bytes: 1, from: '0/1' },
    ...{
      to: '0/2',
      major: 1,
      systemId: '1',
      timeline: 1,
      segmentSize: 2 ** 24,
      database: 'postgres',
      user: 'postgres',
    },
    ...{ objects: [], files: { kind: 'none', count: 0, bytes: 0 }, archive: null },
    ...{ consistent_at: now, touched_at: now, app: 'x' },
    ...change,
  }
  await writeRecord(new DiskTarget(to), new Seals({ passphrase }), objectOf(id, 'done'), details)
  return id
}

export type SpawnedEmbedded = Omit<TestServer, 'stop'> & {
  dataDir: string
  output(): string
  /** The server and every process of its PostgreSQL, at once. */
  killAll(): Promise<void>
  kill(signal: NodeJS.Signals): Promise<void>
  /** Every process of its PostgreSQL, which the server then starts again. */
  killPostgres(): void
}

/** `svc start` in a process of its own, with an embedded database that a test may kill. */
export async function spawnEmbedded(dataDir: string, config: Record<string, unknown> = {}): Promise<SpawnedEmbedded> {
  const port = await freePort()
  const env: NodeJS.ProcessEnv = { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'] }
  const all = { 'admin.password': 'correct horse battery staple', 'server.port': port, data_dir: dataDir, ...config }
  for (const [key, value] of Object.entries({ 'log.level': 'warn', ...all })) {
    env[`SVC_${key.replaceAll('.', '_').toUpperCase()}`] = String(value)
  }
  const child = spawn(process.execPath, [...program, 'start'], {
    cwd: tmpdir(),
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const kill = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    await exited
  }
  const postmaster = () => Number(readFileSync(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0])
  const killPostgres = () => {
    const pid = existsSync(join(dataDir, 'postgres', 'postmaster.pid')) ? postmaster() : 0
    if (pid === 0) return
    const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' })
    for (const one of [pid, ...stdout.split('\n').filter(Boolean).map(Number)]) {
      spawnSync('kill', ['-9', String(one)])
    }
  }
  const killAll = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    killPostgres()
    await exited
  }
  atEnd(killAll)
  await eventually(
    () => {
      if (child.exitCode === null && !output.includes(' is ready'))
        throw new Error(`the server is still starting: ${output}`)
    },
    { seconds: 240 },
  )
  if (child.exitCode !== null) throw new Error(`the server did not start: ${output}`)
  return { ...client(`http://127.0.0.1:${port}`, ''), dataDir, output: () => output, kill, killAll, killPostgres }
}

/** A folder on another file system than `home`, or undefined. */
export function folderElsewhere(home: string): string | undefined {
  const other = ['/var/tmp', '/tmp', '/dev/shm'].find((folder) => statSync(folder).dev !== statSync(home).dev)
  if (other === undefined) return undefined
  const folder = mkdtempSync(join(other, 'svc-backup-'))
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
