import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { prepareAdminLogins } from '../../src/db/setup/admin-logins.ts'
import { prepareAuthenticator } from '../../src/db/setup/authenticator.ts'
import { type Embedded, startEmbedded } from '../../src/db/setup/embedded/embedded.ts'
import { migrate } from '../../src/db/setup/migrate.ts'
import { prepareRoles } from '../../src/db/setup/roles.ts'
import { atEnd } from './at-end.ts'
import { PATIENCE_MS } from './eventually.ts'

/** `embedded`: the PostgreSQL of the npm packages. `extensions`: PostgreSQL 15 with PostGIS and pgvector. */
export type ClusterKind = 'embedded' | 'extensions'

/** For `skip` of tests that need them: why they cannot be had here. On Debian 12, root's `npm test` always has them. */
export const withoutExtensions: string | false =
  process.env['SVC_TEST_PG_EXT'] || process.env['SVC_TEST_PG_BIN_EXT']
    ? false
    : (process.env['SVC_TEST_EXT_REASON'] ?? 'no PostgreSQL with PostGIS and pgvector here: run npm test')

/** Of the embedded cluster, which `npm run matrix` runs with others. */
export const postgresMajor: number = Number(process.env['SVC_TEST_PG_MAJOR'] ?? 18)
export const withoutInvokerViews: string | false =
  postgresMajor < 15 && `PostgreSQL ${postgresMajor} has no views with the rights of their caller`
export const withoutPeriods: string | false =
  postgresMajor < 18 && `PostgreSQL ${postgresMajor} has no keys over periods`
export const withoutVirtualColumns: string | false =
  postgresMajor < 18 && `PostgreSQL ${postgresMajor} has no virtual generated columns`
/** Of a view that reads with the rights of its caller, where there is such. */
export const AS_INVOKER: string = withoutInvokerViews ? '' : 'with (security_invoker = true)'

const MIGRATIONS = new URL('../../migrations', import.meta.url).pathname

const started = new Map<ClusterKind, Promise<string>>()

/** The superuser's connection string of a cluster: the one `npm test` started, or one of this process. */
export function clusterUrl(kind: ClusterKind): Promise<string> {
  const given = process.env[kind === 'embedded' ? 'SVC_TEST_PG' : 'SVC_TEST_PG_EXT']
  if (given) return Promise.resolve(given)
  const known = started.get(kind)
  if (known) return known
  const fresh = startCluster(kind)
  started.set(kind, fresh)
  return fresh
}

async function startCluster(kind: ClusterKind): Promise<string> {
  const binDir = process.env[kind === 'extensions' ? 'SVC_TEST_PG_BIN_EXT' : 'SVC_TEST_PG_BIN']
  if (kind === 'extensions' && !binDir) throw new Error('no PostgreSQL with PostGIS and pgvector here: run npm test')
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-test-'))
  const cluster = await startEmbedded({ dataDir, ...(binDir && { binDir }), log: () => {} })
  stopAtEnd(cluster, dataDir)
  return cluster.url
}

const stops: (() => Promise<void>)[] = []

function stopAtEnd(cluster: Embedded, dataDir: string): void {
  stops.push(async () => {
    await cluster.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
  atEnd(stopClusters)
}

export async function stopClusters(): Promise<void> {
  await Promise.all(stops.splice(0).map((stop) => stop()))
}

function withDatabase(url: string, database: string): string {
  const [head, query] = url.split('?')
  return `${(head ?? '').replace(/\/[^/]*$/, '')}/${database}${query ? `?${query}` : ''}`
}

async function onCluster<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await openConnection({ url, connectTimeoutMs: PATIENCE_MS })
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

const templates = new Map<string, Promise<string>>()

/**
 * A migrated database to clone from, made once per cluster and set of migrations. It has the logins that a server makes at
 * its first start, which take a third of such a start; createEmptyDatabase is for tests of that.
 */
function templateOf(url: string): Promise<string> {
  const known = templates.get(url)
  if (known) return known
  const made = makeTemplate(url)
  templates.set(url, made)
  return made
}

async function makeTemplate(url: string): Promise<string> {
  const hash = createHash('sha256')
  for (const file of readdirSync(MIGRATIONS).sort()) hash.update(readFileSync(join(MIGRATIONS, file)))
  const name = `svc_template_${hash.digest('hex').slice(0, 12)}`
  await onCluster(url, async (client) => {
    await client.query('select pg_advisory_lock(42)')
    const { rows } = await client.query('select from pg_database where datname = $1', [name])
    if (rows.length > 0) return
    const draft = `${name}_draft`
    await client.query(`drop database if exists "${draft}" with (force)`)
    await client.query(`create database "${draft}"`)
    const address = { url: withDatabase(url, draft) }
    await onCluster(address.url, async (inside) => {
      await migrate(inside, MIGRATIONS)
      await prepareRoles(inside, ['public'])
      const { login: callers } = await prepareAuthenticator(inside, address)
      await prepareAdminLogins(inside, address, { callers, schemas: ['public'] })
    })
    await client.query(`alter database "${draft}" rename to "${name}"`)
  })
  return name
}

let count = 0

type TestDatabase = { url: string; drop(): Promise<void> }

async function makeDatabase(url: string, template: string): Promise<TestDatabase> {
  const name = `test_${process.pid}_${++count}_${Math.random().toString(36).slice(2, 8)}`
  await onCluster(url, async (client) => {
    // Cloning needs the template to itself for a moment; files of a parallel run may be cloning too.
    await client.query('select pg_advisory_lock(43)')
    await client.query(`create database "${name}" template "${template}" ${await copyingFiles(client)}`)
  })
  return {
    url: withDatabase(url, name),
    drop: async () => {
      // A cluster of this process is thrown away as a whole.
      if (started.size > 0) return
      await onCluster(url, async (client) => void (await client.query(`drop database "${name}" with (force)`)))
    },
  }
}

/** Quicker than through the log, for which PostgreSQL 15 has a second way; before, it is the only one. */
async function copyingFiles(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ version: string }>(`select current_setting('server_version_num') as version`)
  return Number(rows[0]?.version) >= 150_000 ? 'strategy file_copy' : ''
}

/** A database of its own for a test file, a clone of the template. */
export async function createDatabase(kind: ClusterKind): Promise<TestDatabase> {
  const url = await clusterUrl(kind)
  return makeDatabase(url, await templateOf(url))
}

/** One that no server has seen yet, or a clone of one without connections. */
export const createEmptyDatabase = async (template = 'template0'): Promise<TestDatabase> =>
  makeDatabase(await clusterUrl('embedded'), template)

/** A cluster of the test's own, whose PostgreSQL it may kill. It comes back by itself, as under a supervisor. */
export async function startPrivateCluster() {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-private-'))
  const binDir = process.env['SVC_TEST_PG_BIN']
  const cluster = await startEmbedded({ dataDir, ...(binDir && { binDir }), log: () => {} })
  stopAtEnd(cluster, dataDir)
  return {
    url: cluster.url,
    /** The postmaster of now. */
    pid: () => cluster.pid,
    kill: () => process.kill(cluster.pid, 'SIGKILL'),
    /** Every process of it, as a machine that hangs. */
    signalAll: (signal: NodeJS.Signals) => {
      for (const pid of [...childrenOf(cluster.pid), cluster.pid]) process.kill(pid, signal)
    },
  }
}

const childrenOf = (pid: number): number[] =>
  execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' })
    .split('\n')
    .filter(Boolean)
    .map(Number)
