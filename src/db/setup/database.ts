import { type Observe, operatorWarning } from '../../core/observe.ts'
import { packageRoot } from '../../core/package-root.ts'
import { releaseWaiters } from '../backup/archive/standby.ts'
import { type Dialects, dialectsOf } from '../pool/dialect.ts'
import { openPool, type Pool } from '../pool/pool.ts'
import { WrittenPositions } from '../pool/positions.ts'
import { Primary } from '../pool/primary.ts'
import type { openConnection } from '../protocol/driver.ts'
import { hostsOf } from '../protocol/hosts.ts'
import { requireSettings } from '../protocol/settings.ts'
import { Replicas } from '../replicas/replicas.ts'
import { type AdminLogins, prepareAdminLogins } from './admin-logins.ts'
import { prepareAuthenticator } from './authenticator.ts'
import { prepareHooksRole } from './hooks-role.ts'
import { migrate } from './migrate.ts'
import { prepareRoles } from './roles.ts'

const MIGRATIONS = `${packageRoot}migrations`

type PoolLimits = { maxConns: number; minConns: number; statementTimeoutMs?: number }

export type DatabaseConfig = {
  max_conns: number
  min_conns: number
  acquire_timeout: number
  prepared_statements: boolean
  direct_url: string
  replica_urls?: readonly string[]
}

/** Connects, migrates schema svc, creates the roles, and opens the pool. */
export async function openDatabase(options: {
  url: string
  config: DatabaseConfig
  api: { schemas: readonly string[]; statement_timeout: number }
  observe: Observe
  progress: (line: string) => void
  /** Functions of the operator's are called as hooks. */
  hasHookFunctions?: boolean
  /** How long a primary is waited for; default: not at all. */
  waitMs?: number
}): Promise<{
  pool: Pool
  replicas: Replicas | undefined
  /** With limits of its own. */
  openAnother: (limits: PoolLimits) => Promise<Pool>
  warnings: string[]
  logKey: string
  adminLogins: AdminLogins
  dialects: Dialects
  /** Why hook functions cannot be called. */
  noHookFunctions: string | undefined
}> {
  const { url, config, api, observe, progress } = options
  const directUrl = config.direct_url || url
  const primary = new Primary(directUrl)
  const waiting = (reason: string): void => progress(`waiting for a primary of the database: ${reason}`)
  const { client } = await primary.wait(options.waitMs ?? 0, waiting).catch((error: Error) => {
    throw new Error(`cannot connect to the database: ${error.message}`, { cause: error })
  })
  try {
    await requireSupportedVersion(client)
    await requireSettings(client, primary.url)
    await releaseWaiters(client)
    await migrate(client, MIGRATIONS, progress)
    const { warnings, foreign } = await prepareRoles(client, api.schemas)
    for (const sentence of foreign) observe(operatorWarning(sentence))
    const { rows } = await client.query<{ key: string }>('select key from svc.log_key')
    const logKey = rows[0]?.key ?? ''
    const dialects = await dialectsOf(client)
    const address = { url: url === directUrl ? primary.url : firstHost(url) }
    const callers = await prepareAuthenticator(client, address)
    const admins = await prepareAdminLogins(client, address, { callers: callers.login, schemas: api.schemas })
    const noHookFunctions = options.hasHookFunctions ? await prepareHooksRole(client, callers.login) : undefined
    const statementTimeoutMs = api.statement_timeout * 1000
    const shared = {
      callerLogin: callers.login,
      adminLogins: admins.logins,
      maxConns: config.max_conns,
      minConns: config.min_conns,
      preparedStatements: config.prepared_statements,
      schemas: api.schemas,
      statementTimeoutMs,
      logKey,
      dialects,
    }
    const acquireTimeoutMs = config.acquire_timeout * 1000
    const opening = { ...shared, url, directUrl, acquireTimeoutMs }
    const { replica_urls: urls = [] } = config
    const positions = urls.length > 0 ? new WrittenPositions() : undefined
    const pool = await openPool({ ...opening, primary, positions, observe })
    // Where a replica has no room, the primary may have some.
    const lane = { ...shared, acquireTimeoutMs: Math.min(acquireTimeoutMs, REPLICA_WAIT_MS) }
    const replicas = positions && new Replicas({ urls, db: pool, positions, pool: lane, statementTimeoutMs, observe })
    // What becomes of the database is told once.
    const openAnother = (limits: PoolLimits): Promise<Pool> =>
      openPool({ ...opening, ...limits, positions, observe: () => {} })
    return {
      pool,
      replicas,
      openAnother,
      warnings: [
        ...foreign,
        ...warnings,
        ...callers.warnings,
        ...admins.warnings,
        ...(noHookFunctions === undefined ? [] : [noHookFunctions]),
        ...(await missingExtensions(client)),
      ],
      noHookFunctions,
      logKey,
      adminLogins: admins.logins,
      dialects,
    }
  } finally {
    await client.end().catch(() => {})
  }
}

const REPLICA_WAIT_MS = 1_000

/** Of a pooler, whose hosts are alike. */
const firstHost = (url: string): string => hostsOf(url).urls[0] ?? url

/** Of a database that was copied or restored without the files of its extensions. */
async function missingExtensions(client: Awaited<ReturnType<typeof openConnection>>): Promise<string[]> {
  const { rows } = await client.query<{ extname: string }>(`
    select extname from pg_catalog.pg_extension e
    where not exists (select from pg_catalog.pg_available_extensions a where a.name = e.extname) order by extname`)
  return rows.map(
    ({ extname }) =>
      `the extension ${extname} is in the database, and its files are missing: svc extensions add ${extname}`,
  )
}

async function requireSupportedVersion(client: Awaited<ReturnType<typeof openConnection>>): Promise<void> {
  const { rows } = await client.query<{ server_version_num: string; server_version: string }>(
    `select current_setting('server_version_num') as server_version_num, current_setting('server_version') as server_version`,
  )
  if (Number(rows[0]?.server_version_num) < 140_000) {
    throw new Error(`PostgreSQL 14 or newer is needed, this is ${rows[0]?.server_version}`)
  }
}
