import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { DatabaseLogin } from '../protocol/driver.ts'
import { scramVerifier } from '../setup/authenticator.ts'
import { Ident } from '../sql.ts'

/** Of schema svc; ALWAYS triggers run as this login too. */
const WRITTEN = ['svc.change_log', 'svc.change_shapes', 'svc.undone']
const READ = [...WRITTEN, 'svc.change_packs', 'svc.changes', 'svc.told_changes']

/**
 * A login for one undo: no superuser, reads and writes all rows, and no triggers or foreign keys but ALWAYS ones. Its password
 * is good until `closeUndoLogin`. Undefined where the server itself may not make one, because it is no superuser.
 */
export async function openUndoLogin(server: pg.Client): Promise<DatabaseLogin | undefined> {
  const { rows } = await server.query<{ super: string; user: string }>(`
    select (select rolsuper from pg_catalog.pg_roles where rolname = current_user) as super,
      'svc_undo_' || (select oid from pg_catalog.pg_database where datname = current_database()) as "user"`)
  const { user = '', super: isSuper = 'f' } = rows[0] ?? {}
  if (isSuper !== 't') return undefined
  const password = randomBytes(32).toString('hex')
  await server.query(`
    do $$ begin
      if not exists (select from pg_catalog.pg_roles where rolname = '${user}') then
        create role ${user};
      end if;
      execute pg_catalog.format('grant connect on database %I to ${user}', pg_catalog.current_database());
      execute pg_catalog.format('alter role ${user} in database %I set session_replication_role = replica', pg_catalog.current_database());
    end $$;
    alter role ${user} login bypassrls noinherit nosuperuser nocreatedb nocreaterole noreplication;
    revoke pg_read_all_data, pg_write_all_data from ${user};
    grant usage on schema svc to ${user};
    grant select on ${READ.join(', ')} to ${user};
    grant insert on ${WRITTEN.join(', ')} to ${user};
    revoke select (id), update (updated_at) on svc.users from ${user};
    grant execute on function svc.user_is_there(uuid), svc.undo_object(text, bigint, boolean) to ${user};
    select svc.grant_logins((select pg_catalog.array_agg(nspname) from pg_catalog.pg_namespace
      where nspname !~ '^(pg_|svc$|information_schema$)'), '${user}', null, '{}')`)
  await server.query(`alter role ${user} password '${scramVerifier(password)}'`)
  return { user, password }
}

export const closeUndoLogin = async (server: pg.Client, { user }: DatabaseLogin): Promise<void> => {
  await server.query(`alter role ${new Ident(user).quoted} nologin password null`)
}
