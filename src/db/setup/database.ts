import type { Observe } from '../../core/observe.ts'
import { packageRoot } from '../../core/package-root.ts'
import { releaseWaiters } from '../backup/archive/slot.ts'
import { openPool, type Pool } from '../pool/pool.ts'
import { openConnection } from '../protocol/driver.ts'
import { prepareAuthenticator } from './authenticator.ts'
import { migrate } from './migrate.ts'
import { prepareRoles } from './roles.ts'

const MIGRATIONS = `${packageRoot}migrations`

export type DatabaseConfig = {
  max_conns: number
  min_conns: number
  acquire_timeout: number
  prepared_statements: boolean
  direct_url: string
}

/** Connects, migrates schema svc, creates the roles, and opens the pool. */
export async function openDatabase(options: {
  url: string
  config: DatabaseConfig
  api: { schemas: readonly string[]; statement_timeout: number }
  observe: Observe
  progress: (line: string) => void
}): Promise<{ pool: Pool; warnings: string[]; logKey: string }> {
  const { url, config, api, observe, progress } = options
  const directUrl = config.direct_url || url
  const client = await openConnection({ url: directUrl }).catch((error: Error) => {
    throw new Error(`cannot connect to the database: ${error.message}`, { cause: error })
  })
  try {
    await requireSupportedVersion(client)
    await releaseWaiters(client)
    await migrate(client, MIGRATIONS, progress)
    const warnings = await prepareRoles(client, api.schemas)
    const { rows } = await client.query<{ key: string }>('select key from svc.log_key')
    const logKey = rows[0]?.key ?? ''
    const callers = await prepareAuthenticator(client, { url })
    const pool = await openPool({
      url,
      directUrl,
      callerLogin: callers.login,
      maxConns: config.max_conns,
      minConns: config.min_conns,
      acquireTimeoutMs: config.acquire_timeout * 1000,
      preparedStatements: config.prepared_statements,
      schemas: api.schemas,
      statementTimeoutMs: api.statement_timeout * 1000,
      logKey,
      observe,
    })
    return { pool, warnings: [...warnings, ...callers.warnings], logKey }
  } finally {
    await client.end().catch(() => {})
  }
}

async function requireSupportedVersion(client: Awaited<ReturnType<typeof openConnection>>): Promise<void> {
  const { rows } = await client.query<{ server_version_num: string; server_version: string }>(
    `select current_setting('server_version_num') as server_version_num, current_setting('server_version') as server_version`,
  )
  if (Number(rows[0]?.server_version_num) < 140_000) {
    throw new Error(`PostgreSQL 14 or newer is needed, this is ${rows[0]?.server_version}`)
  }
}
