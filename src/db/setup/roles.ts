import type pg from 'pg'
import { reasonOf } from '../../core/errors.ts'
import { Ident } from '../sql.ts'
import { type ForeignDatabase, foreignDatabase, notAdopted } from './foreign.ts'
import { createHooksRole, HAS_HOOKS_ROLE } from './hooks-role.ts'
import { withMigrationLock } from './migrate.ts'

const ROLES = ['svc_anon', 'svc_authenticated'] as const
const both = ROLES.join(', ')
const quote = (name: string) => new Ident(name).quoted
const literal = (text: string) => `'${text.replaceAll("'", "''")}'`

/** Over `r`: a request role that this server may become. */
const MAY_BECOME = `r.rolname in ('svc_anon', 'svc_authenticated') and pg_catalog.pg_has_role(r.oid,
  case when pg_catalog.current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end)`

/** A query: what a superuser has to run where this server may not. No row where nothing is missing. */
export const ROLES_BY_HAND = `
  with steps(n, step) as (
    select n, 'create role ' || name || ' nologin' from pg_catalog.unnest(array['${ROLES.join("', '")}']) with ordinality as wanted(name, n)
    where not exists (select from pg_catalog.pg_roles where rolname = name)
    union all
    select ${ROLES.length + 1}, pg_catalog.format('grant ${both} to %I', current_user)
      || case when pg_catalog.current_setting('server_version_num')::int >= 160000 then ' with inherit false, set true' else '' end
    where (select pg_catalog.count(*) from pg_catalog.pg_roles r where ${MAY_BECOME}) < ${ROLES.length})
  select pg_catalog.string_agg(step, '; ' order by n) as statements from steps having pg_catalog.count(*) > 0`

type Prepared = {
  /** For the operator, about what failed. */
  warnings: string[]
  /** Of a database that another product made and that was not adopted: a sentence for the log of every start. */
  foreign: string[]
}

/**
 * Creates the request roles and their grants. Existing objects of a schema are granted once, when the schema is first
 * exposed, so that an operator's REVOKE stays. In a database of another backend nothing is granted, then or later: what
 * was closed there by a missing grant would open.
 */
export async function prepareRoles(client: pg.Client, schemas: readonly string[]): Promise<Prepared> {
  const other = await foreignDatabase(client)
  const warnings = (await areReady(client, schemas)) ? [] : await makeReady(client, schemas, other)
  const foreign = other ? notAdopted(other, await namesIn(client, GRANTED)) : []
  return { warnings: [...warnings, ...(await unsafeRoles(client)), ...(await openSchemas(client, schemas))], foreign }
}

/** Settings: schemas that were granted when they were first exposed, and schemas that never will be. */
const GRANTED = 'granted_schemas'
const CLOSED = 'closed_schemas'

async function namesIn(client: pg.Client, key: string): Promise<string[]> {
  const { rows } = await client.query<{ value: string }>('select value::text from svc.settings where key = $1', [key])
  return JSON.parse(rows[0]?.value ?? '[]') as string[]
}

const keepNames = (client: pg.Client, key: string, names: Iterable<string>): Promise<unknown> =>
  client.query(
    'insert into svc.settings (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value',
    [key, JSON.stringify([...names])],
  )

/** Nearly every start finds them ready, and then needs no lock. */
async function areReady(client: pg.Client, schemas: readonly string[]): Promise<boolean> {
  const { rows } = await client.query<{ ready: string; granted: string | null; closed: string | null }>(`
    select (select pg_catalog.count(*) from pg_catalog.pg_roles r
        where ${MAY_BECOME}
          and pg_catalog.has_schema_privilege(r.oid, 'svc', 'usage')
          and ${HAS_HOOKS_ROLE}) as ready,
      (select value::text from svc.settings where key = '${GRANTED}') as granted,
      (select value::text from svc.settings where key = '${CLOSED}') as closed`)
  const [row] = rows
  const decided = [row?.granted, row?.closed].flatMap((names) => JSON.parse(names ?? '[]') as string[])
  return Number(row?.ready) === ROLES.length && schemas.every((schema) => decided.includes(schema))
}

async function makeReady(
  client: pg.Client,
  schemas: readonly string[],
  other: ForeignDatabase | undefined,
): Promise<string[]> {
  const warnings: string[] = []
  /** What fails for want of the roles is said once, with what mends it. */
  const ofRoles: string[] = []
  const attempt = async (what: string, text: string, said = ofRoles): Promise<boolean> => {
    try {
      await client.query(text)
      return true
    } catch (error) {
      said.push(`could not ${what}: ${reasonOf(error)}`)
      await client.query('rollback') // of a text with a transaction of its own
      return false
    }
  }
  await withMigrationLock(client, async () => {
    for (const role of ROLES) await attempt(`create the role ${role}`, createRole(role))
    await attempt('create the role svc_hooks', createHooksRole)
    // SET ROLE needs membership when the server's own role is not a superuser.
    await attempt(`become the request roles`, grantMembership)
    for (const role of ROLES)
      await attempt(`become ${role}, so callers get 403`, `begin; set local role ${role}; rollback`)
    await attempt('grant the request roles access to the change log and files', grantChangeLog)
    const granted = new Set(await namesIn(client, GRANTED))
    const closed = new Set(await namesIn(client, CLOSED))
    for (const schema of schemas) {
      if (granted.has(schema) || closed.has(schema)) continue
      await attempt(`create the schema ${schema}`, `create schema if not exists ${quote(schema)}`, warnings)
      if (other) closed.add(schema)
      else {
        const isGranted = await attempt(`grant the request roles access to schema ${schema}`, grantSchema(schema))
        await attempt(`keep schema ${schema} from being written to by everyone`, closeSchema(schema), warnings)
        // Else the next start tries again.
        if (isGranted) granted.add(schema)
      }
    }
    await keepNames(client, GRANTED, granted)
    if (closed.size > 0) await keepNames(client, CLOSED, closed)
  })
  const { rows } = await client.query<{ statements: string }>(ROLES_BY_HAND)
  const byHand = rows.map(
    ({ statements }) => `callers are refused until a superuser runs ${statements}; then restart the server`,
  )
  return [...(byHand.length > 0 ? byHand : ofRoles), ...warnings]
}

// Roles belong to the whole cluster, so the server of another database may be creating them.
const createRole = (role: string) => `
  do $$ begin
    if not exists (select from pg_catalog.pg_roles where rolname = '${role}') then
      create role ${role} nologin;
    end if;
  exception when duplicate_object or unique_violation then null;
  end $$`

/** Since PostgreSQL 16 the creator of a role may manage it but needs a grant to become it. */
const grantMembership = `
  do $$
  declare
    is_new constant boolean := pg_catalog.current_setting('server_version_num')::int >= 160000;
    kind constant text := case when is_new then 'SET' else 'MEMBER' end;
  begin
    if not (select rolsuper from pg_catalog.pg_roles where rolname = current_user)
       and not (pg_catalog.pg_has_role('svc_anon', kind) and pg_catalog.pg_has_role('svc_authenticated', kind)) then
      execute pg_catalog.format('grant ${both} to %I', current_user)
        || case when is_new then ' with inherit false, set true' else '' end;
    end if;
  end $$`

/** Every function of the log checks its caller itself; row security guards the objects of buckets. */
const grantChangeLog = `grant usage on schema svc to ${both}; select svc.grant_objects()`

/** What `svc adopt` brought came with its own grants. */
const grantSchema = (schema: string) => {
  const name = quote(schema)
  const isOurs = (owner: string): string =>
    `${owner} is distinct from (select r.oid from pg_catalog.pg_roles r where r.rolname = 'svc_adopted')`
  return `
    grant usage on schema ${name} to ${both};
    do $grants$
    declare
      one record;
    begin
      for one in
        select c.oid::pg_catalog.regclass::text as name, c.relkind = 'S' as is_sequence from pg_catalog.pg_class c
        where c.relnamespace = ${literal(name)}::pg_catalog.regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S') and ${isOurs('c.relowner')}
      loop
        if one.is_sequence then execute 'grant usage, select on sequence ' || one.name || ' to ${both}';
        else execute 'grant select, insert, update, delete on ' || one.name || ' to ${both}';
        end if;
      end loop;
      for one in
        select p.oid::pg_catalog.regprocedure::text as name from pg_catalog.pg_proc p
        where p.pronamespace = ${literal(name)}::pg_catalog.regnamespace and p.prokind <> 'p' and ${isOurs('p.proowner')}
      loop
        execute 'grant execute on function ' || one.name || ' to ${both}';
      end loop;
    end $grants$;
    alter default privileges in schema ${name} grant select, insert, update, delete on tables to ${both};
    alter default privileges in schema ${name} grant usage, select on sequences to ${both};
    alter default privileges in schema ${name} grant execute on functions to ${both}`
}

/** Before PostgreSQL 15 everyone may create tables in schema public. Nothing else relies on that in one that is empty. */
const closeSchema = (schema: string) => `
  do $$ begin
    if not exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where n.nspname = '${schema.replaceAll("'", "''")}') then
      revoke create on schema ${quote(schema)} from public;
    end if;
  end $$`

/** What a function of a caller creates there would be exposed. */
async function openSchemas(client: pg.Client, schemas: readonly string[]): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select n.nspname as name from pg_catalog.pg_namespace n
     where n.nspname = any($1) and exists (select from pg_catalog.pg_roles r
       where r.rolname in ('svc_anon', 'svc_authenticated') and pg_catalog.has_schema_privilege(r.oid, n.oid, 'create'))`,
    [schemas],
  )
  return rows.map(
    ({ name }) =>
      `functions that callers may call can create tables in schema ${name}: revoke create on schema ${quote(name)} from public`,
  )
}

/** RLS does not apply to a role that bypasses it or owns the tables. */
async function unsafeRoles(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ rolname: string; owns: string }>(`
    select r.rolname, exists (select from pg_catalog.pg_class c where c.relowner = r.oid) as owns
    from pg_catalog.pg_roles r
    where r.rolname in ('svc_anon', 'svc_authenticated')
      and (r.rolsuper or r.rolbypassrls or r.rolcanlogin
           or exists (select from pg_catalog.pg_class c where c.relowner = r.oid))`)
  return rows.map(
    ({ rolname, owns }) =>
      `the role ${rolname} must not be a superuser, bypass RLS, log in or own tables${owns === 't' ? ' (it owns some)' : ''}`,
  )
}
