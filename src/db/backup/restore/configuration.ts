import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const CONF = `# Written by svc restore. The configuration of the copied cluster was not taken over.
max_connections = 100
datestyle = 'iso, mdy'
timezone = 'UTC'
log_timezone = 'UTC'
default_text_search_config = 'pg_catalog.english'
`

/** Tablespaces are folders here; PostgreSQL recovers no cluster that has such unless it is said. */
const IN_PLACE = 'allow_in_place_tablespaces = on\n'

/** The socket's folder is ours alone (0700); nothing listens on the network. */
const HBA = 'local all all trust\nlocal replication all trust\n'
const HBA_TCP = 'host all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 scram-sha-256\n'

/** Folders that PostgreSQL expects and that are empty in a backup. */
const FOLDERS = [
  ...['pg_commit_ts', 'pg_dynshmem', 'pg_notify', 'pg_replslot', 'pg_serial', 'pg_snapshots', 'pg_stat', 'pg_stat_tmp'],
  ...['pg_subtrans', 'pg_tblspc', 'pg_twophase', 'pg_wal', 'pg_wal/archive_status', 'pg_logical/snapshots'],
  ...['pg_logical/mappings', 'pg_multixact/members', 'pg_multixact/offsets', 'pg_xact'],
]

/** Our configuration in place of the copied one, and the file that makes PostgreSQL recover. */
export function configureCluster(clusterDir: string): void {
  for (const folder of FOLDERS) mkdirSync(join(clusterDir, folder), { recursive: true, mode: 0o700 })
  const write = (name: string, text: string): void => writeFileSync(join(clusterDir, name), text, { mode: 0o600 })
  const hasTablespaces = readdirSync(join(clusterDir, 'pg_tblspc')).length > 0
  write('postgresql.conf', hasTablespaces ? `${CONF}${IN_PLACE}` : CONF)
  write('postgresql.auto.conf', '')
  write('pg_hba.conf', process.platform === 'win32' ? HBA_TCP : HBA)
  write('pg_ident.conf', '')
  write('recovery.signal', '')
}

/** Where recovery ends. */
export type RecoveryTarget = { kind: 'end' } | { kind: 'time'; at: string } | { kind: 'before'; xid: string }

export function recoverySettings(target: RecoveryTarget): Record<string, string> {
  return {
    // A cluster with larger max_connections than ours cannot be recovered as a hot standby.
    hot_standby: 'off',
    // Everything there is lies in pg_wal already.
    restore_command: process.platform === 'win32' ? 'exit 1' : 'false',
    recovery_target_timeline: 'current',
    recovery_target_action: 'promote',
    ...(target.kind === 'time' && { recovery_target_time: target.at, recovery_target_inclusive: 'on' }),
    ...(target.kind === 'before' && { recovery_target_xid: target.xid, recovery_target_inclusive: 'off' }),
    archive_mode: 'off',
    synchronous_standby_names: '',
  }
}
