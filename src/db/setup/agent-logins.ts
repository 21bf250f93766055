import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { DatabaseLogin } from '../protocol/driver.ts'
import { Ident } from '../sql.ts'
import { scramVerifier } from './authenticator.ts'

type Names = { reader: string; owner: string }

/** Undefined where the server itself may not make roles. */
async function namesFor(server: pg.Client): Promise<Names | undefined> {
  const { rows } = await server.query<{ super: string; oid: string }>(`
    select (select rolsuper from pg_catalog.pg_roles where rolname = current_user) as super,
      (select oid from pg_catalog.pg_database where datname = current_database())::text as oid`)
  const { super: isSuper = 'f', oid = '0' } = rows[0] ?? {}
  return isSuper === 't' ? { reader: `svc_reader_${oid}`, owner: `svc_preview_${oid}` } : undefined
}

/**
 * A login for one call of the operator's agent: reads the operator's tables, and nothing of the schema svc. It is nobody's
 * superuser, because SET ROLE can be undone inside a statement. Row security does not hide the operator's own data from it.
 */
export async function openReader(server: pg.Client): Promise<DatabaseLogin | undefined> {
  const names = await namesFor(server)
  if (!names) return undefined
  const user = names.reader
  const password = randomBytes(32).toString('hex')
  await server.query(makeRole(user))
  await server.query(readerRights(user))
  await server.query(`alter role ${user} login bypassrls password '${scramVerifier(password)}'`)
  return { user, password }
}

export const closeReader = async (server: pg.Client, { user }: DatabaseLogin): Promise<void> => {
  await server.query(`alter role ${user} nologin password null`)
}

const makeRole = (user: string): string => `
  do $$ begin
    if not exists (select from pg_catalog.pg_roles where rolname = '${user}') then
      create role ${user} nologin noinherit nosuperuser nocreatedb nocreaterole noreplication connection limit 4;
      execute pg_catalog.format('grant connect on database %I to ${user}', pg_catalog.current_database());
      execute pg_catalog.format('alter role ${user} in database %I set default_transaction_read_only = on', pg_catalog.current_database());
    end if;
  end $$`

/** Only what it does not have yet: a grant is DDL, of which every process hears. */
const readerRights = (user: string): string => `
  do $$
  declare
    one record;
  begin
    for one in select n.nspname as space from pg_catalog.pg_namespace n
      where n.nspname not in ('svc', 'information_schema') and n.nspname !~ '^pg_' and not pg_catalog.has_schema_privilege('${user}', n.oid, 'usage')
    loop
      execute pg_catalog.format('grant usage on schema %I to ${user}', one.space);
    end loop;
    for one in select n.nspname as space, c.relname as name from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where n.nspname not in ('svc', 'information_schema') and n.nspname !~ '^pg_' and c.relkind in ('r', 'p', 'v', 'm', 'f')
        and not pg_catalog.has_table_privilege('${user}', c.oid, 'select')
    loop
      execute pg_catalog.format('grant select on %I.%I to ${user}', one.space, one.name);
    end loop;
  end $$`

/** The relations of exposed schemas that a script mentions, with their indexes and sequences. */
const MENTIONED = `(
  with named as (
    select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any ($1::text[]) and pg_catalog.strpos(pg_catalog.lower($2), pg_catalog.lower(c.relname)) > 0)
  select oid from named union select i.indexrelid from pg_catalog.pg_index i where i.indrelid in (select oid from named)
  union select d.objid from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
    and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid in (select oid from named) and d.deptype in ('a', 'i'))`

/** Code of other rights, and what connects elsewhere or makes large objects, until the rollback. */
const CLOSE_DOORS = `
  do $$
  declare
    one record;
  begin
    for one in select p.oid::pg_catalog.regprocedure::text as name from pg_catalog.pg_proc p
      join pg_catalog.pg_namespace n on n.oid = p.pronamespace join pg_catalog.pg_language l on l.oid = p.prolang
      left join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.objid = p.oid
        and d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass and d.deptype = 'e'
      left join pg_catalog.pg_extension e on e.oid = d.refobjid
      where n.nspname = 'pg_catalog' and p.proname ~ '^(lo_|loread|lowrite)' or n.nspname not in ('svc', 'pg_catalog', 'information_schema') and (
        p.prosecdef or not l.lanpltrusted and l.lanname not in ('internal', 'c')
        or e.extname in ('dblink', 'http', 'pg_net', 'pg_background', 'postgres_fdw', 'plproxy', 'adminpack', 'pg_cron', 'aws_s3', 'aws_lambda', 'pg_curl'))
    loop
      execute pg_catalog.format('revoke execute on routine %s from public', one.name);
    end loop;
  end $$`

/**
 * Makes this transaction, which is rolled back, that of a role without more rights than to own the tables that a script
 * mentions. The owners are written into the catalogue itself, which takes no lock on a table. What could undo it is closed
 * first.
 */
export async function becomeOwner(server: pg.Client, schemas: readonly string[], script: string): Promise<void> {
  const names = await namesFor(server)
  // Where the server is no superuser, its own role is the owner.
  if (!names) return
  const owner = `${names.owner}_${randomBytes(6).toString('hex')}`
  await server.query(`create role ${owner} nologin noinherit nosuperuser nocreatedb nocreaterole noreplication`)
  await server.query('set local allow_system_table_mods = on')
  const isOwner = `= '${owner}'::pg_catalog.regrole`
  await server.query(
    `update pg_catalog.pg_type set typowner ${isOwner} where typrelid in ${MENTIONED} or (typnamespace in (
      select n.oid from pg_catalog.pg_namespace n where n.nspname = any ($1::text[])) and pg_catalog.strpos(pg_catalog.lower($2), pg_catalog.lower(typname)) > 0)`,
    [schemas, script],
  )
  await server.query(`update pg_catalog.pg_class set relacl = null, relowner ${isOwner} where oid in ${MENTIONED}`, [
    schemas,
    script,
  ])
  for (const schema of schemas) {
    await server.query(`grant usage, create on schema ${new Ident(schema).quoted} to ${owner}`)
  }
  await server.query('set local allow_system_table_mods = off')
  await server.query('revoke execute on function pg_catalog.set_config(text, text, boolean) from public')
  await server.query(CLOSE_DOORS)
  await server.query(`set local session authorization ${owner}`)
}
