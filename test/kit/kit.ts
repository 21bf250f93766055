import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import type { RunningServer } from '../../src/app/options.ts'
import { startApp } from '../../src/app.ts'
import { createRing } from '../../src/cli/log/ring.ts'
import { loadConfig } from '../../src/config/config.ts'
import type { Observation } from '../../src/core/observe.ts'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { atEnd, begunAtEnd } from './at-end.ts'
import { type ClusterKind, createDatabase } from './cluster.ts'
import { type CheckAnswer, checkAgainst, routesOf } from './declared.ts'
import { eventually, PATIENCE_MS } from './eventually.ts'
import { freePort } from './free-port.ts'
import { parsed } from './parsed.ts'
import { svc } from './programs.ts'

export { eventually } from './eventually.ts'

export type Answer = {
  status: number
  /** Parsed when it is JSON, else the text. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers freely
  body: any
  text: string
  headers: Headers
}

type Line = `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS' | 'HEAD'} /${string}`

type CallOptions = {
  /** A bearer token, or `admin` for the operator's. */
  as?: string
  json?: unknown
  form?: Record<string, string>
  body?: string | Uint8Array
  headers?: Record<string, string>
  signal?: AbortSignal
}

export type SignedUp = {
  token: string
  refreshToken: string
  user: { id: string; email: string }
}

/** A server under test: in this process, or (spawnServer) in one of its own. */
export type TestServer = {
  url: string
  databaseUrl: string
  call(line: Line, options?: CallOptions): Promise<Answer>
  /** As the superuser, outside the API. Rows are objects with text values. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into rows freely
  sql(text: string, values?: unknown[]): Promise<any[]>
  adminToken(): Promise<string>
  signUp(email: string, password?: string): Promise<SignedUp>
  stop(): Promise<void>
}

export type InProcessServer = TestServer & {
  app: RunningServer
  /** Everything the server said, as data. */
  observations: Observation[]
}

const ADMIN_PASSWORD = 'correct horse battery staple'

const filesOfTest = mkdtempSync(join(tmpdir(), 'svc-files-'))

/** All servers of a test share their files, as nodes of one service do. Beside this folder there is nothing. */
export const storagePath: string = join(filesOfTest, 'storage')

/** Cheap password hashes and no rate limits, unless the test is about them. */
const testDefaults = {
  'server.port': 0,
  'admin.password': ADMIN_PASSWORD,
  'auth.argon2_memory': 1024,
  'auth.argon2_time': 1,
  'rate_limit.register': 'off',
  'rate_limit.link': 'off',
  'rate_limit.login': 'off',
  'rate_limit.anonymous': 'off',
  'rate_limit.magic_link': 'off',
  'rate_limit.sms': 'off',
  'rate_limit.password_reset': 'off',
  'rate_limit.verify_resend': 'off',
  'rate_limit.mfa_verify': 'off',
  'rate_limit.admin_login': 'off',
  'log.level': 'error',
  // Nothing is cleaned up at the full hour in the middle of a test.
  'jobs.scheduler_enabled': false,
  'database.max_conns': 8,
  // Nor does a busy machine refuse a caller.
  'database.acquire_timeout': 60,
  'storage.local_path': storagePath,
  'storage.disk_reserve': 0,
}

export type ServerOptions = {
  config?: Record<string, unknown>
  /** Share the database of this server: several processes, one service. */
  on?: Pick<TestServer, 'databaseUrl'>
  postgres?: ClusterKind
  /** The folder of a built dashboard; without it there is none, whatever this checkout has built. */
  dashboardFolder?: string
}

async function databaseFor({ on, postgres = 'embedded' }: ServerOptions): Promise<string> {
  if (on) return on.databaseUrl
  mkdirSync(storagePath, { recursive: true })
  atEnd(() => rmSync(filesOfTest, { recursive: true, force: true }))
  const { url, drop } = await createDatabase(postgres)
  begunAtEnd(drop)
  return url
}

export async function startServer(options: ServerOptions = {}): Promise<InProcessServer> {
  const databaseUrl = await databaseFor(options)
  const { config } = loadConfig({ overrides: { ...testDefaults, 'database.url': databaseUrl, ...options.config } })
  const observations: Observation[] = []
  const together = heard.get(databaseUrl) ?? []
  heard.set(databaseUrl, together)
  const ring = createRing(config.log.buffer_size)
  const app = await startApp(config, {
    logEntries: ring.entries,
    observe: (observation) => {
      ring.sink(observation)
      observations.push(observation)
      together.push(observation)
    },
    dashboardFolder: options.dashboardFolder ?? join(filesOfTest, 'no-dashboard'),
  })
  let stopped: Promise<void> | undefined
  const stop = () => {
    stopped ??= app.close()
    return stopped
  }
  atEnd(stop)
  return { ...client(app.url, databaseUrl, checkAgainst(app.routes)), app, observations, stop }
}

const heard = new Map<string, Observation[]>()

/** What all servers of this process on the same database told, in order: any of them may take what is queued there. */
export const heardOn = ({ databaseUrl }: TestServer): readonly Observation[] => heard.get(databaseUrl) ?? []

export type SpawnedServer = TestServer & {
  child: ChildProcess
  output(): string
  kill(signal?: NodeJS.Signals): Promise<void>
}

/** A server in a process of its own, for tests that kill it. */
export async function spawnServer(
  options: ServerOptions & { port?: number; main?: string; detached?: boolean } = {},
): Promise<SpawnedServer> {
  const databaseUrl = await databaseFor(options)
  const port = options.port ?? (await freePort())
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-spawned-'))
  const overrides = {
    ...testDefaults,
    ...options.config,
    data_dir: dataDir,
    'server.port': port,
    'database.url': databaseUrl,
  }
  const env: NodeJS.ProcessEnv = { ...process.env }
  for (const [key, value] of Object.entries(overrides)) {
    env[`SVC_${key.replaceAll('.', '_').toUpperCase()}`] =
      typeof value === 'object' ? JSON.stringify(value) : String(value)
  }
  const main = options.main ? [options.main] : svc
  const { detached = false } = options
  const child = spawn(process.execPath, [...main, 'start'], { env, detached, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const kill = async (signal: NodeJS.Signals = 'SIGKILL') => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    await exited
  }
  atEnd(async () => {
    await kill()
    rmSync(dataDir, { recursive: true, force: true })
  })
  let check: CheckAnswer = () => {}
  const api = client(`http://127.0.0.1:${port}`, databaseUrl, (...answer) => check(...answer))
  const isUp = async () => {
    if (child.exitCode !== null) return
    if (!output.includes(' is ready')) throw new Error('the server is still starting')
    const { status } = await api.call('GET /health')
    if (status !== 200) throw new Error(`health ${status}`)
  }
  // A busy machine takes minutes to compile and connect, three processes for one server with workers.
  await eventually(isUp, { seconds: 240 })
  if (child.exitCode !== null) throw new Error(`the server did not start: ${output}`)
  check = checkAgainst(await routesOf(api.url))
  return { ...api, child, output: () => output, kill, stop: () => kill('SIGTERM') }
}

/** Calls against any server at `url`. */
export function client(url: string, databaseUrl: string, check: CheckAnswer = () => {}): Omit<TestServer, 'stop'> {
  let admin: Promise<string> | undefined
  let superuser: Promise<pg.Client> | undefined
  atEnd(async () => void (await (await superuser)?.end()))

  const call = async (line: Line, { as, json, form, body, headers, signal }: CallOptions = {}): Promise<Answer> => {
    const [method = 'GET', path = '/'] = line.split(/ (.*)/s)
    const bearer = as === 'admin' ? await adminToken() : as
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
        ...(json !== undefined && { 'content-type': 'application/json' }),
        ...(form !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
        ...headers,
      },
      body:
        json !== undefined
          ? JSON.stringify(json)
          : form
            ? new URLSearchParams(form).toString()
            : ((body ?? null) as RequestInit['body'] & (string | null)),
      redirect: 'manual',
      ...(signal && { signal }),
    })
    const text = await response.text()
    check(method, path, { status: response.status, text, headers: response.headers })
    const isJson = response.headers.get('content-type')?.startsWith('application/json') && text !== ''
    return { status: response.status, body: isJson ? parsed(text) : text, text, headers: response.headers }
  }

  const adminToken = () => {
    admin ??= call('POST /api/admin/auth', { json: { password: ADMIN_PASSWORD } }).then(({ status, body }) => {
      if (status !== 200) throw new Error(`admin login answered ${status}`)
      return body.token as string
    })
    return admin
  }

  const sql = async (text: string, values?: unknown[]) => {
    superuser ??= openConnection({ url: databaseUrl, connectTimeoutMs: PATIENCE_MS })
    const result = await (await superuser).query(text, values)
    return Array.isArray(result) ? (result.at(-1)?.rows ?? []) : result.rows
  }

  const signUp = async (email: string, password = 'long enough password') => {
    const { status, body } = await call('POST /api/auth/register', { json: { email, password } })
    if (status !== 201) throw new Error(`register answered ${status} ${JSON.stringify(body)}`)
    return body as SignedUp
  }

  return { url, databaseUrl, call, sql, adminToken, signUp }
}
