import { hasStatus } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import { sql } from '../sql.ts'

export const SCHEMA_CHANNEL = 'svc_schema'

/** Any constant. Serialises the creation of the triggers by servers that start at once. */
const LOCK_ID = 0x53_56_43_02

// Temporary objects and the server's own tables are not exposed. REFRESH changes rows, not the schema. Commands without
// a schema (GRANT, COMMENT on a policy, CREATE EXTENSION) always count.
const notifier = sql`
  create or replace function svc.notify_schema() returns event_trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $body$
  begin
    if tg_event = 'sql_drop' then
      perform from pg_catalog.pg_event_trigger_dropped_objects() o
      where not o.is_temporary and coalesce(o.schema_name, '') !~ '^(svc$|pg_)';
    else
      perform from pg_catalog.pg_event_trigger_ddl_commands() c
      where c.command_tag <> 'REFRESH MATERIALIZED VIEW' and coalesce(c.schema_name, '') !~ '^(svc$|pg_)';
    end if;
    if found then
      perform pg_catalog.pg_notify('svc_schema', '');
    end if;
  end $body$`

const triggers = sql`
  do $body$
  begin
    if not exists (select from pg_catalog.pg_event_trigger where evtname = 'svc_schema_ddl') then
      create event trigger svc_schema_ddl on ddl_command_end execute function svc.notify_schema();
    end if;
    if not exists (select from pg_catalog.pg_event_trigger where evtname = 'svc_schema_drop') then
      create event trigger svc_schema_drop on sql_drop execute function svc.notify_schema();
    end if;
  end $body$`

const enabledTriggers = sql`
  select from pg_catalog.pg_event_trigger t join pg_catalog.pg_proc p on p.oid = t.evtfoid
  where t.evtname in ('svc_schema_ddl', 'svc_schema_drop') and t.evtenabled in ('O', 'A')`

const isOurNotifier = sql`p.prosrc = ${notifier.text.split('$body$')[1] ?? ''}`

/**
 * Makes PostgreSQL notify every server of DDL from any session. Event triggers need a superuser (or what a managed service
 * grants instead); if they are refused, resolves to a warning for the operator.
 */
export async function ensureSchemaTrigger(db: Db): Promise<string | undefined> {
  // Nearly every start finds them, and then needs no lock.
  if ((await db.run(SYSTEM, sql`${enabledTriggers} and ${isOurNotifier}`)) === 2) return undefined
  try {
    await db.run(SYSTEM, [sql`select pg_catalog.pg_advisory_xact_lock(${LOCK_ID})`, notifier, triggers])
    return undefined
  } catch (error) {
    if (!hasStatus(error, 403)) throw error
  }
  if ((await db.run(SYSTEM, enabledTriggers)) === 2) return undefined
  return 'the database role may not create event triggers: schema changes made outside the server are noticed by polling, within 60 seconds or when a name is not found'
}
