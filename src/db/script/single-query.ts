import type pg from 'pg'
import { badRequest } from '../../core/errors.ts'
import { executeSingle, type ScriptResult } from './execute.ts'

/** Functions of PostgreSQL that run a text as SQL, reach outside, wait for others, or leave something behind. */
const CLOSED = `p.proname ~ '^(lo_|loread|lowrite|pg_advisory|pg_try_advisory|dblink|pg_ls_|pg_read_|pg_file_|pg_logical_|pg_replication_)'
  or p.proname ~ '_to_xml' or p.proname in ('ts_stat', 'ts_rewrite', 'set_config', 'pg_notify', 'pg_export_snapshot', 'pg_cancel_backend',
    'pg_terminate_backend', 'pg_stat_file', 'pg_reload_conf', 'pg_rotate_logfile', 'pg_log_backend_memory_contexts', 'nextval', 'setval',
    'pg_sleep', 'pg_sleep_for', 'pg_sleep_until', 'pg_create_restore_point', 'pg_switch_wal', 'txid_current', 'pg_current_xact_id')`

/** Of a function outside pg_catalog: it may write, has other rights, or is in a language that may do anything. */
const UNTRUSTED = `n.nspname <> 'pg_catalog' and (p.provolatile = 'v' or p.prosecdef or not l.lanpltrusted and l.lanname not in ('internal', 'c')
  or e.extname in ('dblink', 'http', 'pg_net', 'pg_background', 'postgres_fdw', 'plproxy', 'adminpack', 'pg_cron', 'aws_s3', 'aws_lambda'))`

/** The functions that a view's rule calls, by their oids: no spelling hides one. */
const CALLED = `
  select p.proname as name from pg_catalog.pg_rewrite w
  cross join lateral pg_catalog.regexp_matches(w.ev_action::text, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\\d+)', 'g') as m(parts)
  join pg_catalog.pg_proc p on p.oid = m.parts[1]::pg_catalog.oid
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace join pg_catalog.pg_language l on l.oid = p.prolang
  left join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.objid = p.oid
    and d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass and d.deptype = 'e'
  left join pg_catalog.pg_extension e on e.oid = d.refobjid
  where w.ev_class = 'pg_temp.svc_probe'::pg_catalog.regclass and (${CLOSED} or ${UNTRUSTED}) limit 1`

/**
 * Runs one query on a connection of a reader, in a transaction that writes nothing and is rolled back. PostgreSQL itself
 * says first what the query is: a view can be made of a query alone, and its rule names every function.
 */
export async function runReadOnly(client: pg.Client, text: string, prefix = ''): Promise<ScriptResult> {
  const query = text.replace(/[\s;]+$/, '')
  await client.query('begin read write')
  await executeSingle(
    client,
    `create temporary view svc_probe as select 1 as one from (\n${query}\n) as svc_query`,
  ).catch((error: unknown) => {
    throw (error as { code?: string }).code === '42501' ? error : asNoQuery(error)
  })
  const { rows } = await client.query<{ name: string }>(CALLED)
  if (rows[0]) throw badRequest(`${rows[0].name}() cannot be called here`, 'sql_error')
  await client.query('rollback')
  await client.query('begin isolation level repeatable read read only')
  const result = await executeSingle(client, `${prefix}${query}`)
  await client.query('rollback')
  return result
}

const asNoQuery = (error: unknown): unknown =>
  (error as { code?: string }).code === '42601'
    ? badRequest('only one query that reads is possible: SELECT, VALUES, TABLE or WITH', 'sql_error')
    : error
