import { closeSync, constants, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type pg from 'pg'
import { sleep } from '../../../core/clock.ts'
import { ARCHIVE_SETTINGS } from '../../setup/embedded/address.ts'
import { SLOT } from './slot.ts'

const NAMES = 'synchronous_standby_names'

/**
 * Commits wait for the archive, or no longer. In the embedded PostgreSQL the setting is in a file beside its socket, which is in no copy
 * of the cluster and goes with every start; elsewhere it is made by ALTER SYSTEM. Neither writes to the log, so neither waits itself.
 */
export async function setSynchronous(client: pg.Client, isOn: boolean, embeddedDir?: string): Promise<void> {
  if (isOn && embeddedDir !== undefined) await include(client, embeddedDir)
  else if (isOn) await client.query(`alter system set ${NAMES} = '${SLOT}'`)
  else await takeBack(client)
  await client.query('select pg_reload_conf()')
}

/** PostgreSQL of another account sees the folder of its socket under another name. */
async function include(client: pg.Client, clusterDir: string): Promise<void> {
  const { rows } = await client.query<{ folder: string }>(`select current_setting('unix_socket_directories') as folder`)
  const line = `include_if_exists = '${(rows[0]?.folder ?? '').replaceAll("'", "''")}/${ARCHIVE_SETTINGS}'\n`
  const file = join(clusterDir, 'postgresql.conf')
  if (!readFileSync(file, 'utf8').includes(line)) {
    // The file is the account's that runs PostgreSQL, so it may have become a link.
    const descriptor = openSync(file, constants.O_WRONLY | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0))
    writeSync(descriptor, `\n# What holds while an archive runs.\n${line}`)
    closeSync(descriptor)
  }
  writeFileSync(join(client.host, ARCHIVE_SETTINGS), `${NAMES} = '${SLOT}'\n`, { mode: 0o644 })
}

async function takeBack(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ file: string | null }>(
    `select sourcefile as file from pg_settings where name = '${NAMES}'`,
  )
  if (rows[0]?.file?.endsWith(`/${ARCHIVE_SETTINGS}`)) rmSync(join(client.host, ARCHIVE_SETTINGS), { force: true })
  else await client.query(`alter system reset ${NAMES}`)
}

/** Ends sessions that wait for the archive: their transactions are committed here, without an acknowledgement. */
export async function endWaiters(client: pg.Client): Promise<number> {
  const { rows } = await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep' and pid <> pg_backend_pid()`,
  )
  return rows.length
}

/** Patroni and others set it: two that do would take turns. */
export async function requireNoOtherStandby(client: pg.Client): Promise<void> {
  const { rows: settings } = await client.query<{ names: string }>(`select current_setting('${NAMES}') as names`)
  const names = settings[0]?.names ?? ''
  if (names !== '' && names !== SLOT) {
    throw new Error(
      `backup.continuous = "sync" needs synchronous_standby_names for itself, and it is set already (${names}): use "async"`,
    )
  }
  const { rows } = await client.query<{ super: string }>(
    'select rolsuper as super from pg_roles where rolname = current_user',
  )
  if (rows[0]?.super !== 't') {
    throw new Error('backup.continuous = "sync" needs a superuser, who may ALTER SYSTEM: use "async"')
  }
}

/** A value that an archive left which is not there any more: every write would wait for it. */
export async function releaseWaiters(client: pg.Client): Promise<void> {
  if (await isStuck(client)) {
    // It may be about to come back, in another process.
    await sleep(STUCK_MS)
    if (await isStuck(client)) await setSynchronous(client, false)
  }
}

const STUCK_MS = 1_000

async function isStuck(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ stuck: string }>(
    `select current_setting('${NAMES}') = '${SLOT}'
       and not exists (select from pg_stat_replication where application_name = '${SLOT}') as stuck`,
  )
  return rows[0]?.stuck === 't'
}
