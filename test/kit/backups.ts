import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BackupDetails, newBackupId, objectOf, writeRecord } from '../../src/db/backup/stored/records.ts'
import { Seals } from '../../src/db/backup/stored/seal.ts'
import { DiskTarget } from '../../src/db/backup/target/disk-target.ts'
import { atEnd } from './at-end.ts'
import { type InProcessServer, startServer } from './kit.ts'
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
  const id = newBackupId()
  const now = new Date().toISOString()
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
