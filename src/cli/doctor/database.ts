import { readdirSync } from 'node:fs'
import type pg from 'pg'
import type { Config } from '../../config/config.ts'
import { reasonOf } from '../../core/errors.ts'
import { packageRoot } from '../../core/package-root.ts'
import { openConnection } from '../../db/protocol/driver.ts'
import { hostNames } from '../../db/protocol/hosts.ts'
import { databaseChecks } from './database-checks.ts'
import { type DoctorItem, finding, fine, orFine } from './finding.ts'

const MAX_SKEW_MS = 2_000
const CONNECT_MS = 5_000

/** Everything that the database can be asked. `now`: the clock of this machine. */
export async function examineDatabase(
  client: pg.Client,
  config: Config,
  now: () => number = Date.now,
): Promise<readonly DoctorItem[]> {
  const migrations = await examineMigrations(client)
  const items = [...(await examineClock(client, now)), ...migrations]
  for (const { check, fine: message, query, values, fix } of databaseChecks) {
    // Without the tables of the server there is nothing to ask of them.
    if (check === 'log' && migrations.some(({ state }) => state === 'finding')) continue
    try {
      const { rows } = await client.query<{ message: string; fix?: string }>(query, [...(values?.(config) ?? [])])
      items.push(
        ...orFine(
          check,
          message,
          rows.map((row) => finding(check, row.message, row.fix ?? fix)),
        ),
      )
    } catch (error) {
      items.push(finding(check, `cannot be looked at: ${reasonOf(error)}`, 'run it as the role of the server'))
    }
  }
  return [...items, ...(await examineReplicas(client, config))]
}

async function examineClock(client: pg.Client, now: () => number): Promise<readonly DoctorItem[]> {
  const before = now()
  const { rows } = await client.query<{ at: string }>('select extract(epoch from clock_timestamp()) * 1000 as at')
  const after = now()
  const at = Number(rows[0]?.at ?? before)
  const skew = at < before ? before - at : Math.max(0, at - after)
  if (skew <= MAX_SKEW_MS) return [fine('clock', 'the clocks of this machine and of PostgreSQL agree')]
  const message = `the clocks of this machine and of PostgreSQL differ by ${(skew / 1000).toFixed(1)} s`
  return [
    finding('clock', message, 'run a time service (chrony, systemd-timesyncd) on both: tokens and codes depend on it'),
  ]
}

async function examineMigrations(client: pg.Client): Promise<readonly DoctorItem[]> {
  const known = readdirSync(`${packageRoot}migrations`)
    .filter((name) => name.endsWith('.sql'))
    .sort()
  const table = await client.query<{ found: string | null }>(`select to_regclass('svc.migrations')::text as found`)
  if (table.rows[0]?.found === null) {
    return [finding('migrations', 'the database has no schema svc yet', 'svc start makes it')]
  }
  const { rows } = await client.query<{ name: string }>('select name from svc.migrations')
  const applied = new Set(rows.map(({ name }) => name))
  const newest = known.at(-1) ?? ''
  const newer = [...applied].filter((name) => name > newest).sort()
  const missing = known.filter((name) => !applied.has(name))
  const found: DoctorItem[] = []
  if (newer.length > 0) {
    const message = `the database was migrated by a newer version of the server (${newer.at(-1)})`
    found.push(finding('migrations', message, 'run that version, or restore the backup made before the upgrade'))
  } else if (missing.length > 0) {
    const message = `${missing.length} migrations of this version are not applied, ${missing[0]} first`
    found.push(finding('migrations', message, 'svc start applies them; take a backup before'))
  }
  return orFine('migrations', 'the database has the schema of this version', found)
}

async function examineReplicas(client: pg.Client, { database }: Config): Promise<readonly DoctorItem[]> {
  const { rows } = await client.query<{ id: string }>('select system_identifier::text as id from pg_control_system()')
  const found = await Promise.all(database.replica_urls.map((url) => examineReplica(url, rows[0]?.id)))
  return orFine('replicas', 'replicas follow this database, or there is none', found.flat())
}

async function examineReplica(url: string, system: string | undefined): Promise<DoctorItem[]> {
  const name = hostNames(url)
  let replica: pg.Client | undefined
  try {
    replica = await openConnection({ url, connectTimeoutMs: CONNECT_MS })
    const { rows } = await replica.query<{ standby: string; id: string }>(
      'select pg_is_in_recovery() as standby, system_identifier::text as id from pg_control_system()',
    )
    if (rows[0]?.id !== system) {
      return [finding('replicas', `${name} is a copy of another database`, 'correct database.replica_urls')]
    }
    if (rows[0]?.standby !== 't') {
      return [
        finding(
          'replicas',
          `${name} is no standby: it was promoted`,
          'make it a standby again, or take it out of database.replica_urls',
        ),
      ]
    }
    return []
  } catch (error) {
    return [
      finding(
        'replicas',
        `${name} cannot be reached: ${reasonOf(error)}`,
        'start it, or take it out of database.replica_urls',
      ),
    ]
  } finally {
    await replica?.end().catch(() => {})
  }
}
