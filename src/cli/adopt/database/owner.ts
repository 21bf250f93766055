import type pg from 'pg'
import { ADOPTED_OWNER } from '../pocketbase/sql-functions.ts'

/** Helper functions of an adoption, which are not exposed. */
export const SUPABASE_HELPERS = 'svc_supabase'
export const AYB_HELPERS = 'svc_allyourbase'

/** Makes the role that owns what comes along: it can do nothing else. */
export async function prepareOwner(client: pg.Client, helpers: string): Promise<void> {
  await client.query(`do $role$ begin
    if not exists (select from pg_catalog.pg_roles where rolname = '${ADOPTED_OWNER}') then
      create role ${ADOPTED_OWNER} nologin noinherit nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
    end if;
  exception when duplicate_object or unique_violation then null;
  end $role$`)
  await client.query(`do $role$ begin
    if exists (select from pg_catalog.pg_roles where rolname = '${ADOPTED_OWNER}' and (rolsuper or rolbypassrls or rolcreaterole or rolreplication)) then
      raise exception 'the role ${ADOPTED_OWNER} may do more than it should';
    end if;
    if not pg_catalog.pg_has_role(current_user, '${ADOPTED_OWNER}', 'member') then
      execute pg_catalog.format('grant ${ADOPTED_OWNER} to %I', current_user);
    end if;
  end $role$`)
  await client.query(`grant usage on schema svc to ${ADOPTED_OWNER}`)
  await client.query(`grant references (id), select (id, email_verified_at) on svc.users to ${ADOPTED_OWNER}`)
  await client.query(`create schema if not exists ${helpers} authorization ${ADOPTED_OWNER}`)
}

/** A role of the source, if the cluster has none of that name; one that is more than a role for rights is refused. */
export async function prepareRole(client: pg.Client, role: string, mayBypass = false): Promise<void> {
  await client.query(`do $role$ begin
    if not exists (select from pg_catalog.pg_roles where rolname = '${role}') then
      create role ${role} nologin noinherit;
    end if;
  exception when duplicate_object or unique_violation then null;
  end $role$`)
  const { rowCount } = await client.query(
    `select from pg_catalog.pg_roles r where r.rolname = $1 and (r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolreplication
       or (r.rolbypassrls and not $2::boolean) or exists (select from pg_catalog.pg_auth_members m where m.member = r.oid and not $2::boolean))`,
    [role, mayBypass],
  )
  if (rowCount !== 0)
    throw new Error(
      `the role ${role} of this cluster may do more than hold rights: our callers cannot become members of it`,
    )
}

/** Our callers receive what that role has, and nothing else. */
export async function joinRole(client: pg.Client, ours: string, role: string): Promise<void> {
  const { rowCount } = await client.query(
    `select from pg_catalog.pg_auth_members m where m.member = $1::regrole and m.roleid = $2::regrole`,
    [ours, role],
  )
  if (rowCount !== 0) return
  const { rows } = await client.query<{ version: string }>(`select current_setting('server_version_num') as version`)
  const how = Number(rows[0]?.version) >= 160_000 ? ' with inherit true, set false' : ''
  await client.query(`grant ${role} to ${ours}${how}`)
}
