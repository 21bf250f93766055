import { mostConnections } from '../../app/platform.ts'
import type { Config } from '../../config/config.ts'
import { ROLES_BY_HAND } from '../../db/setup/roles.ts'

/** A question to the database: each row is the message of a finding. */
export type DatabaseCheck = {
  readonly check: string
  /** What is so when no row comes back. */
  readonly fine: string
  /** Columns `message` and, where it is not the same for all, `fix`. `$1` and `$2` are of `values`. */
  readonly query: string
  readonly values?: (config: Config) => readonly unknown[]
  readonly fix: string
}

const schemasOf = ({ api }: Config): readonly unknown[] => [api.schemas]
const EXPOSED = `n.nspname = any($1::text[])`

export const databaseChecks: readonly DatabaseCheck[] = [
  {
    check: 'durability',
    fine: 'acknowledged writes are on disk',
    query: `select name || ' is off: acknowledged writes can be lost' || case name when 'synchronous_commit' then '' else ', and the whole database with them' end as message
      from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off'`,
    fix: 'set it to on (ALTER SYSTEM, then select pg_reload_conf())',
  },
  {
    check: 'connections',
    fine: 'PostgreSQL has connections enough',
    query: `select 'database.max_conns is ' || $1::int || ', with what is beside the pool up to ' || $2::int
        || ', and PostgreSQL takes ' || current_setting('max_connections') || ' connections, of which '
        || current_setting('superuser_reserved_connections') || ' are kept for superusers' as message
      where $2::int > current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`,
    values: (config) => [config.database.max_conns, mostConnections(config)],
    fix: 'lower database.max_conns, or raise max_connections of PostgreSQL',
  },
  {
    check: 'roles',
    fine: 'the request roles can do no more than they must',
    query: `select 'the role ' || rolname || ' ' || concat_ws(', ', case when rolsuper then 'is a superuser' end,
          case when rolbypassrls then 'bypasses row level security' end, case when rolcanlogin then 'may log in' end,
          case when rolcreaterole then 'may make roles' end,
          case when exists (select from pg_class c where c.relowner = r.oid) then 'owns tables' end) as message
      from pg_roles r where rolname in ('svc_anon', 'svc_authenticated')
        and (rolsuper or rolbypassrls or rolcanlogin or rolcreaterole or exists (select from pg_class c where c.relowner = r.oid))`,
    fix: 'ALTER ROLE … NOSUPERUSER NOBYPASSRLS NOLOGIN NOCREATEROLE, and REASSIGN OWNED BY … TO the owner of the schema',
  },
  {
    check: 'roles',
    fine: 'the request roles are there',
    query: `select 'the server may not become a role of callers, or there is none: their requests are refused' as message,
        'as a superuser: ' || statements || '; then restart the server' as fix
      from (${ROLES_BY_HAND}) as missing`,
    fix: 'start the server as a role that may make roles',
  },
  {
    check: 'roles',
    fine: 'callers have rights in the exposed schemas',
    query: `select format('callers have no right to any table of schema %I', n.nspname) as message
      from pg_namespace n
      where ${EXPOSED} and exists (select from pg_class c where c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'f'))
        and not exists (select from pg_class c, pg_roles r
          where c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'f') and r.rolname in ('svc_anon', 'svc_authenticated')
            and has_any_column_privilege(r.oid, c.oid, 'select, insert, update, references'))`,
    values: schemasOf,
    fix: 'GRANT USAGE ON SCHEMA … and SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO svc_anon, svc_authenticated, or what of it they may',
  },
  {
    check: 'open tables',
    fine: 'no table is open to everybody',
    query: `select format('anybody may write to %I.%I: it has no row level security', n.nspname, c.relname) as message
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where ${EXPOSED} and c.relkind in ('r', 'p') and not c.relrowsecurity and $2
        and exists (select from pg_roles where rolname = 'svc_anon')
        and (has_table_privilege('svc_anon', c.oid, 'insert') or has_table_privilege('svc_anon', c.oid, 'update')
          or has_table_privilege('svc_anon', c.oid, 'delete'))`,
    values: ({ api }) => [api.schemas, api.anonymous === 'all'],
    fix: 'ALTER TABLE … ENABLE ROW LEVEL SECURITY with policies, or set api.anonymous to read or none',
  },
  {
    check: 'tables',
    fine: 'row level security has policies, and tables have keys',
    query: `select format('%I.%I has row level security and no policy: nobody but administrators sees a row', n.nspname, c.relname) as message
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where ${EXPOSED} and c.relkind in ('r', 'p') and c.relrowsecurity
        and not exists (select from pg_policy p where p.polrelid = c.oid)
      union all
      select format('%I.%I has no primary key: its rows cannot be read, changed or followed one by one', n.nspname, c.relname)
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where ${EXPOSED} and c.relkind in ('r', 'p') and not c.relispartition
        and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)`,
    values: schemasOf,
    fix: 'CREATE POLICY …, or ALTER TABLE … ADD PRIMARY KEY (…)',
  },
  {
    check: 'indexes',
    fine: 'every index is valid',
    query: `select format('the index %s is invalid: it costs every write and serves no read', i.indexrelid::regclass) as message
      from pg_index i where not i.indisvalid and not exists (select from pg_stat_progress_create_index p where p.index_relid = i.indexrelid)`,
    fix: 'REINDEX INDEX CONCURRENTLY …, or drop it',
  },
  {
    check: 'extensions',
    fine: 'extensions are up to date',
    query: `select format('the extension %s is %s, and PostgreSQL brings %s', name, installed_version, default_version) as message
      from pg_available_extensions where installed_version is not null and installed_version <> default_version
      union all
      select format('the extension %s is in the database, and its files are missing', extname)
      from pg_extension e where not exists (select from pg_available_extensions a where a.name = e.extname)`,
    fix: 'ALTER EXTENSION … UPDATE; where files are missing: svc extensions add …, or the package of the machine',
  },
  {
    check: 'replication',
    fine: 'nothing holds up the log, and commits do not wait in vain',
    query: `select format('the replication slot %s is used by nobody and keeps %s of log', slot_name,
          pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(restart_lsn, pg_current_wal_lsn())))) as message
      from pg_replication_slots where not active and not pg_is_in_recovery()
      union all
      select 'synchronous_standby_names is ' || current_setting('synchronous_standby_names') || ', and no such standby is connected: writes wait for ever'
      where current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') not in ('off', 'local')
        -- Its state is hidden from roles without pg_monitor.
        and not exists (select from pg_stat_replication where sync_state in ('sync', 'quorum') or sync_state is null)
      union all
      select format('the standby %s has not replayed for %s', coalesce(nullif(application_name, ''), client_addr::text), replay_lag)
      from pg_stat_replication where replay_lag > interval '1 minute'`,
    fix: 'select pg_drop_replication_slot(…), start the standby again, or correct synchronous_standby_names',
  },
  {
    check: 'transactions',
    fine: 'no transaction is forgotten',
    query: `select format('a transaction of %s has been open for %s: the change log and vacuum wait for it', coalesce(nullif(application_name, ''), usename), date_trunc('second', now() - xact_start)) as message
      from pg_stat_activity where state like 'idle in transaction%' and xact_start < now() - make_interval(secs => $1)
      union all
      select format('the prepared transaction %s has been open since %s', gid, prepared) from pg_prepared_xacts
      where prepared < now() - make_interval(secs => $1)
      union all
      select format('the database %s is %s transactions old, and stops at two billion', datname, age(datfrozenxid))
      from pg_database where age(datfrozenxid) > 1500000000`,
    values: () => [FORGOTTEN_SECONDS],
    fix: 'select pg_terminate_backend(pid), ROLLBACK PREPARED …, or let autovacuum do its work',
  },
  {
    check: 'log',
    fine: 'the readers of the change log keep up',
    query: `select format('the reader %s of the change log is %s behind', r.name, date_trunc('second', now() - r.moved_at)) as message
      from svc.change_readers r
      where r.moved_at < now() - interval '10 minutes'
        and exists (select from svc.change_log c where c.id > r.id and c.at < now() - interval '10 minutes')`,
    fix: 'start a server: one process has to run; look for its warnings',
  },
]

const FORGOTTEN_SECONDS = 300
