import { Ident, join, OR, type Sql, sql } from '../../db/sql.ts'
import { linkedIdentities } from '../../identity/linked-identities.ts'
import { factors, organizations, sessions } from './sql.ts'

/** The newest of the audit trail; all of it is at /api/admin/audit. */
const MAX_AUDIT = 10_000

const all = (columns: Sql, from: Sql): Sql =>
  sql`(select coalesce(json_agg(to_json(x)), '[]') from (select ${columns} from ${from}) x)`

/** Rows of `u`, the account. Tokens, secrets and hashes are left out, and of others what is not about the account. */
const PARTS: Readonly<Record<string, Sql>> = {
  sessions: sql`(${sessions})`,
  factors: sql`(${factors})`,
  identities: sql`(${linkedIdentities(sql`u.id`)})`,
  organizations: sql`(${organizations})`,
  mailed_links: all(
    sql`t.purpose, t.email, t.expires_at`,
    sql`svc.mail_tokens t where t.user_id = u.id order by t.expires_at`,
  ),
  passwords_to_be_set: all(sql`l.mailed_at`, sql`svc.lost_passwords l where l.user_id = u.id`),
  known_devices: all(sql`d.seen_at`, sql`svc.known_devices d where d.user_id = u.id order by d.seen_at`),
  api_keys: all(
    sql`k.id, k.name, k.key_prefix, k.scope, k.allowed_tables, k.app_id, k.org_id, k.created_at, k.last_used_at, k.expires_at,
      k.revoked_at`,
    sql`svc.api_keys k where k.user_id = u.id order by k.created_at, k.id`,
  ),
  apps: all(
    sql`a.id, a.name, a.description, a.created_at`,
    sql`svc.apps a where a.owner_user_id = u.id order by a.created_at, a.id`,
  ),
  consents: all(
    sql`c.name as client, o.redirect_uri, o.scope, o.tables, o.resource, o.auto, o.release, o.until, o.created_at`,
    sql`svc.oauth_consents o join svc.oauth_clients c on c.id = o.client where o.user_id = u.id order by o.created_at`,
  ),
  grants: all(
    sql`c.name as client, g.scope, g.tables, g.resource, g.auto, g.release, g.until, g.auth_time, g.created_at`,
    sql`svc.oauth_grants g join svc.oauth_clients c on c.id = g.client where g.user_id = u.id order by g.created_at`,
  ),
  logins_elsewhere: all(
    sql`c.name as client, l.created_at`,
    sql`svc.oauth_logins l join svc.oauth_clients c on c.id = l.client where l.user_id = u.id order by l.created_at`,
  ),
  agents: all(
    sql`a.client_id, a.quarantined_at, a.created_at,
      ${all(sql`w.request_id, w.at, w.rows, w.by_hand`, sql`svc.agent_writes w where w.agent = a.id order by w.at`)} as writes,
      ${all(sql`p.tool, p.args, p.changes, p.created_at, p.expires_at`, sql`svc.agent_pending p where p.agent = a.id order by p.created_at`)} as pending`,
    sql`svc.agents a where a.user_id = u.id order by a.created_at, a.id`,
  ),
  push_devices: all(
    sql`a.name as app, d.provider, d.platform, d.device_name, d.is_active, d.last_used, d.created_at`,
    sql`svc.push_devices d join svc.apps a on a.id = d.app_id where d.user_id = u.id order by d.created_at`,
  ),
  push_deliveries: all(
    sql`d.title, d.body, d.data, d.status, d.sent_at, d.created_at`,
    sql`svc.push_deliveries d where d.user_id = u.id order by d.created_at`,
  ),
  invitations_sent: all(
    sql`o.name as organization, i.email, i.role, i.created_at, i.expires_at`,
    sql`svc.org_invites i join svc.organizations o on o.id = i.org_id where i.invited_by = u.id order by i.created_at`,
  ),
  // Who only says to have the address is not told of them.
  invitations_received: all(
    sql`o.name as organization, i.role, i.created_at, i.expires_at`,
    sql`svc.org_invites i join svc.organizations o on o.id = i.org_id
      where i.email = u.email and u.email_verified_at is not null order by i.created_at`,
  ),
  files: all(
    sql`f.bucket, f.name, f.content_type, f.size, f.metadata, f.created_at`,
    sql`svc.objects f where f.owner = u.id order by f.bucket, f.name`,
  ),
  uploads: all(
    sql`f.bucket, f.name, f.content_type, f.length, f.received, f.created_at`,
    sql`svc.uploads f where f.owner = u.id and f.completed_at is null order by f.created_at`,
  ),
  audit: all(
    // Which administrator it was, and from where, is about that one.
    sql`a.at, a.actor, a.action, a.target, a.table_name, a.record_id, a.operation, a.old_values, a.new_values,
      case when a.user_id = u.id and a.impersonated_by is null then a.ip_address end as ip_address`,
    sql`(select * from svc.audit_log o where o.user_id = u.id union all
      select * from svc.audit_log t where t.target = u.id::text and t.target <> '' and t.table_name is null and t.user_id is distinct from u.id) a
      order by a.at desc, a.seq desc limit ${MAX_AUDIT}`,
  ),
}

const parts = join(Object.entries(PARTS).map(([name, list]) => sql`${name}::text, ${list}`))

export const exportOf = (id: string): Sql => sql`
  select json_build_object('account', svc.user_json(u), ${parts})::text from svc.users u where u.id = ${id}::uuid`

export type PointingTable = { schema: string; table: string; columns: string[]; is_readable: boolean }

/** Tables outside of `svc` with a foreign key of one column to svc.users, and whether the login that asks may read them. */
export const tablesPointingToUsers: Sql = sql`
  select n.nspname::text as schema, c.relname::text as table, to_json(array_agg(distinct a.attname::text)) as columns,
    pg_catalog.has_schema_privilege(n.oid, 'usage') and pg_catalog.has_table_privilege(c.oid, 'select') as is_readable
  from pg_catalog.pg_constraint k
  join pg_catalog.pg_class c on c.oid = k.conrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[1]
  where k.contype = 'f' and k.confrelid = 'svc.users'::regclass and cardinality(k.conkey) = 1 and n.nspname <> 'svc'
    and not c.relispartition
  group by n.oid, c.oid, n.nspname, c.relname order by 1, 2`

export function rowsPointingTo({ schema, table, columns }: PointingTable, userId: string): Sql {
  const conditions = columns.map((column) => sql`t.${new Ident(column)} = ${userId}::uuid`)
  return sql`select coalesce(json_agg(to_json(t)), '[]')::text from ${new Ident(schema)}.${new Ident(table)} t
    where ${join(conditions, OR)}`
}
