import type pg from 'pg'
import { helperSchema, OWNER_STATEMENTS } from '../adopted-owner.ts'

/** Helper functions of an adoption, which are not exposed. */
export const SUPABASE_HELPERS = 'svc_supabase'
export const AYB_HELPERS = 'svc_allyourbase'

/** Makes the role that owns what comes along. */
export async function prepareOwner(client: pg.Client, helpers: string): Promise<void> {
  for (const statement of [...OWNER_STATEMENTS, helperSchema(helpers)]) await client.query(statement)
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
