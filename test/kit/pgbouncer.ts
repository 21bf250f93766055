import { spawn } from 'node:child_process'
import { accessSync, chmodSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { startProxy } from './proxy.ts'

const program = ['/usr/sbin/pgbouncer', '/usr/local/bin/pgbouncer', '/opt/homebrew/bin/pgbouncer'].find((path) => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
})

/** Why there is none; `undefined` when there is. `npm test` installs it on Debian as root. */
export const noPgbouncer: string | undefined = program ? undefined : 'pgbouncer is not installed'

export type Pgbouncer = {
  /** The same database through the pooler. */
  url: string
  stop(): Promise<void>
}

/**
 * A pooler in front of a database. In transaction mode consecutive transactions of a client change sessions. `ignored`:
 * settings that a client may send at its login without effect; it may send no others.
 */
export async function startPgbouncer(
  databaseUrl: string,
  { poolSize = 4, mode = 'transaction', ignored = '' } = {},
): Promise<Pgbouncer> {
  // It refuses to run as root, and the account it then has may not enter the folder of the database's socket.
  const proxy = await startProxy(databaseUrl)
  const [port, upstream] = [await freePort(), new URL(proxy.url)]
  const folder = mkdtempSync(join(tmpdir(), 'svc-pgbouncer-'))
  chmodSync(folder, 0o755)
  writeFileSync(
    join(folder, 'pgbouncer.ini'),
    `[databases]
* = host=127.0.0.1 port=${proxy.port} user=${upstream.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
ignore_startup_parameters = ${ignored}
default_pool_size = ${poolSize}
max_client_conn = 200
server_round_robin = 1
`,
  )
  const account = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}
  const child = spawn(program ?? 'pgbouncer', [join(folder, 'pgbouncer.ini')], {
    ...account,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()))
  await said(child.stderr, /process up/)
  const url = new URL(proxy.url)
  url.port = String(port)
  return {
    url: url.href,
    async stop() {
      child.kill('SIGKILL')
      await exited
      await proxy.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function said(stream: NodeJS.ReadableStream, wanted: RegExp): Promise<void> {
  let text = ''
  await new Promise<void>((resolve, reject) => {
    stream.on('data', (chunk) => {
      text += chunk
      if (wanted.test(text)) resolve()
    })
    stream.once('end', () => reject(new Error(`pgbouncer did not start: ${text}`)))
  })
}
