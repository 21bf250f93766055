import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
