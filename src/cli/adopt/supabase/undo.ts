import type pg from 'pg'
import { changeSchema } from '../../../db/setup/migrate.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import { SUPABASE_HELPERS } from '../database/owner.ts'
import { withSavepoint } from '../database/savepoint.ts'
import { hasMark, type Target } from '../database/target.ts'
import type { Note } from '../plan.ts'
import { POLICY_PREFIX } from './storage-schema.ts'

type Undone = { removed: string[]; notes: Note[] }

type Reverse = { what: string; sql: string }

/** What `--in-place` added, and the statements that take it away. Accounts and files stay with the server, rows in auth.users there. */
export async function undoInPlace({ client }: Target, isApplied: boolean): Promise<Undone> {
  if (!(await hasMark(client, 'supabase', 'step', 'in place')))
    throw new Error('this database was not adopted in place: there is nothing to undo')
  const notes: Note[] = []
  const reversals = await reversalsOf(client, notes)
  for (const { id, email } of await rowsOfOurs(client))
    notes.push({
      level: 'warning',
      what: `auth.users ${id}`,
      why: `${email || 'an account without address'} registered here: the row stays`,
    })
  if (isApplied)
    await changeSchema(client, async () => {
      for (const { sql } of reversals) await client.query(sql)
      await client.query(
        `delete from svc.adopted where source = 'supabase' and kind in ('step', 'dialect', 'watched', 'member', 'job', 'bucket', 'function')`,
      )
      await dropOwner(client)
    })
  return { removed: reversals.map(({ what }) => what), notes }
}

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

async function reversalsOf(client: pg.Client, notes: Note[]): Promise<Reverse[]> {
  const keysOf = async (kind: string): Promise<{ key: string; target: string | null }[]> =>
    (
      await client.query<{ key: string; target: string | null }>(
        `select key, target from svc.adopted where source = 'supabase' and kind = $1 order by key`,
        [kind],
      )
    ).rows
  const all: Reverse[] = [
    {
      what: 'triggers on svc.users',
      sql: 'drop trigger if exists supabase_user on svc.users; drop trigger if exists supabase_user_changed on svc.users',
    },
    {
      what: 'the policy and grants on auth.users',
      sql: `drop policy if exists ${ADOPTED_OWNER} on auth.users; revoke all on auth.users from ${ADOPTED_OWNER}; revoke all on schema auth from ${ADOPTED_OWNER}`,
    },
  ]
  const policies = await client.query<{ name: string }>(
    `select polname as name from pg_catalog.pg_policy where polrelid = 'svc.objects'::regclass and pg_catalog.starts_with(polname::text, $1) order by 1`,
    [POLICY_PREFIX],
  )
  for (const { name } of policies.rows)
    all.push({ what: `policy ${name} of svc.objects`, sql: `drop policy ${quote(name)} on svc.objects` })
  for (const { key } of await keysOf('watched')) {
    const { rows } = await client.query<{ name: string }>(
      'select oid::regclass::text as name from pg_catalog.pg_class where oid = $1::oid',
      [key],
    )
    const name = rows[0]?.name
    if (name !== undefined)
      all.push({ what: `realtime of ${name}`, sql: `select svc.unwatch(${Number(key)}::regclass)` })
  }
  for (const { key, target } of await keysOf('job'))
    all.push({
      what: `schedule ${target ?? key}`,
      sql: `delete from svc.schedules where name = '${(target ?? '').replaceAll("'", "''")}' and job_type = 'sql'; drop function if exists public.${quote(key)}()`,
    })
  for (const { key } of await keysOf('function'))
    all.push({ what: `function ${key}()`, sql: `drop function if exists ${key}()` })
  for (const { key } of await keysOf('bucket'))
    all.push({
      what: `bucket ${key}`,
      // With files it stays closed: they are bytes that only the server has.
      sql: `delete from svc.storage_buckets b where b.name = '${key}' and not exists (select from svc.objects o where o.bucket = b.name)`,
    })
  all.push({ what: `schema ${SUPABASE_HELPERS}`, sql: `drop schema if exists ${SUPABASE_HELPERS} cascade` })
  for (const { key } of await keysOf('member')) {
    const role = key === 'svc_anon' ? 'anon' : 'authenticated'
    if (await isNeededElsewhere(client, role))
      notes.push({
        level: 'warning',
        what: `${key} in ${role}`,
        why: 'stays: another database of this cluster was adopted too',
      })
    else all.push({ what: `${key} in ${role}`, sql: `revoke ${role} from ${key}` })
  }
  all.push({ what: 'rights of the server’s other roles', sql: REVOKED })
  return all
}

/**
 * Of the logins of administrators and of the change log; a start of the server gives them again. Only what the server gave: most
 * schemas of Supabase are others', where even to take away from all is refused.
 */
const REVOKED = `do $revoke$ declare given record; begin
  for given in
    select distinct pg_catalog.format('revoke all on %s %s from %s', a.kind, a.name, a.grantee::regrole) as sql from (
      select case c.relkind when 'S' then 'sequence' else 'table' end as kind, c.oid::regclass::text as name, x.grantee, x.grantor, c.relnamespace as space
        from pg_catalog.pg_class c cross join pg_catalog.aclexplode(c.relacl) x where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
      union all select 'table', c.oid::regclass::text, x.grantee, x.grantor, c.relnamespace
        from pg_catalog.pg_attribute t join pg_catalog.pg_class c on c.oid = t.attrelid cross join pg_catalog.aclexplode(t.attacl) x
      union all select 'routine', p.oid::regprocedure::text, x.grantee, x.grantor, p.pronamespace from pg_catalog.pg_proc p cross join pg_catalog.aclexplode(p.proacl) x
      union all select 'schema', pg_catalog.quote_ident(n.nspname), x.grantee, x.grantor, n.oid from pg_catalog.pg_namespace n cross join pg_catalog.aclexplode(n.nspacl) x
    ) a join pg_catalog.pg_namespace n on n.oid = a.space join pg_catalog.pg_roles r on r.oid = a.grantee
    where r.rolname ~ '^svc_' and n.nspname !~ '^(pg_|svc$|information_schema$)' and n.nspname <> all ('{auth,storage}') and pg_catalog.pg_has_role(a.grantor, 'member')
    union all
    select distinct pg_catalog.format('alter default privileges for role %s in schema %I revoke all on %s from %s', d.defaclrole::regrole, n.nspname,
        case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'routines' when 'T' then 'types' end, r.oid::regrole)
      from pg_catalog.pg_default_acl d join pg_catalog.pg_namespace n on n.oid = d.defaclnamespace cross join pg_catalog.aclexplode(d.defaclacl) x
      join pg_catalog.pg_roles r on r.oid = x.grantee where r.rolname ~ '^svc_' and n.nspname !~ '^(pg_|svc$)' and pg_catalog.pg_has_role(d.defaclrole, 'member')
  loop execute given.sql; end loop;
end $revoke$`

/** Roles are of the whole cluster: another database that gives rights to both is one that was adopted. */
async function isNeededElsewhere(client: pg.Client, role: string): Promise<boolean> {
  const { rowCount } = await client.query(
    `select from pg_catalog.pg_shdepend d join pg_catalog.pg_shdepend o on o.dbid = d.dbid
     where d.refclassid = 'pg_catalog.pg_authid'::regclass and d.refobjid = $1::regrole and d.dbid <> 0
       and o.refclassid = d.refclassid and o.refobjid = '${ADOPTED_OWNER}'::regrole
       and d.dbid <> (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database()) limit 1`,
    [role],
  )
  return rowCount !== 0
}

/** Unless something else in the cluster is its. */
async function dropOwner(client: pg.Client): Promise<void> {
  const { rowCount } = await client.query(`select from svc.adopted where source <> 'supabase' limit 1`)
  if (rowCount !== 0) return
  await client.query(
    `revoke all on svc.users from ${ADOPTED_OWNER}; revoke all (id, email_verified_at) on svc.users from ${ADOPTED_OWNER}; revoke all on schema svc from ${ADOPTED_OWNER}; revoke all on schema public from ${ADOPTED_OWNER}`,
  )
  await withSavepoint(client, () => client.query(`drop role ${ADOPTED_OWNER}`))
}

const rowsOfOurs = async (client: pg.Client): Promise<{ id: string; email: string }[]> =>
  (
    await client.query<{ id: string; email: string }>(
      `select a.id::text, coalesce(a.email, '') as email from auth.users a join svc.users u on u.id = a.id
       where not exists (select from svc.adopted d where d.source = 'supabase' and d.kind = 'user' and d.key = a.id::text) order by a.created_at, a.id`,
    )
  ).rows
