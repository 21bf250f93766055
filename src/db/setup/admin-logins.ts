import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import { type ConnectOptions, type DatabaseLogin, openConnection } from '../protocol/driver.ts'
import { Ident, sql } from '../sql.ts'
import { scramVerifier } from './authenticator.ts'
import { withMigrationLock } from './migrate.ts'

/**
 * Who administrators are in the database. `writers` and `readers` are for data routes; SQL of operators and viewers has logins
 * that reach nothing of schema svc. `owner`: whether data routes of owners use `writers` too.
 */
export type AdminLogins = { readonly owner: boolean } & { readonly [login in AdminLogin]?: DatabaseLogin | undefined }

export const ADMIN_LOGINS = {
  writers: 'svc_admin_writer',
  readers: 'svc_admin_reader',
  operator: 'svc_operator_sql',
  viewer: 'svc_viewer_sql',
} as const
export type AdminLogin = keyof typeof ADMIN_LOGINS

const KINDS = Object.keys(ADMIN_LOGINS) as AdminLogin[]
/** The owner of the triggers of watched tables; see migrations/0118_log_role.sql. */
const LOGGER = 'svc_logger'
/** The owner of functions that read rows past policies; see migrations/0155_lesser_roles.sql. */
const FINDER = 'svc_finder'
/** Rows by an index, and a whole row for the log. */
const FOUND_BY = ['svc.candidates(text, regclass, text, text[], integer, text)', 'svc.whole_row(text, regclass, jsonb)']
const quote = (name: string): string => new Ident(name).quoted

/** Over `r`: it logs in, reads past row security, and neither is nor may become more. */
const IS_SOUND = `(r.rolcanlogin and r.rolbypassrls and not (r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolreplication)
  and not exists (select from pg_catalog.pg_auth_members m where m.member = r.oid))`

/** Of schema svc, data routes use functions, and read the table that policies on files are about. */
const IS_GRANTED = `(case when r.rolname ~ '^svc_admin_'
  then pg_catalog.has_schema_privilege(r.oid, 'svc', 'usage') and pg_catalog.has_table_privilege(r.oid, 'svc.objects', 'select')
  else not pg_catalog.has_schema_privilege(r.oid, 'svc', 'usage') end)`

type Known = {
  isSuper: boolean
  suffix: string
  passwords: Record<string, string>
  schemas: string[]
  sound: string[]
  /** Functions that may run code of others have owners who may do little. */
  hasOwners: boolean
}

/**
 * Makes the logins, each with a password of its own where the login of callers has one. See docs/decisions/access.md. What
 * cannot be made is undefined, with a warning for the operator.
 */
export async function prepareAdminLogins(
  client: pg.Client,
  address: ConnectOptions,
  options: { callers: DatabaseLogin | undefined; schemas: readonly string[] },
): Promise<{ logins: AdminLogins; warnings: string[] }> {
  const { callers, schemas } = options
  const none = (reason: string) => ({
    logins: { owner: false },
    warnings: [
      `administrators who are no owners have neither data nor SQL, for want of logins of their own: ${reason}`,
    ],
  })
  if (!callers) return none('callers have none either')
  const needsPassword = callers.password !== undefined
  const found = (known: Known): AdminLogins => ({
    owner: known.isSuper,
    ...Object.fromEntries(KINDS.map((kind) => [kind, loginOf(kind, known, needsPassword)])),
  })
  try {
    const known = await read(client, needsPassword)
    if (isReady(known, schemas, needsPassword)) return { logins: found(known), warnings: [] }
    return await withMigrationLock(client, async () => {
      const made = await make(client, await read(client, needsPassword), schemas, needsPassword)
      for (const kind of KINDS) await requireArrival(address, loginOf(kind, made, needsPassword))
      return { logins: found(made), warnings: [] }
    })
  } catch (error) {
    return none(reasonOf(error))
  }
}

const loginOf = (kind: AdminLogin, { suffix, passwords }: Known, needsPassword: boolean): DatabaseLogin => {
  const user = `${ADMIN_LOGINS[kind]}${suffix}`
  return needsPassword ? { user, password: passwords[kind] ?? '' } : { user }
}

/** Nearly every start finds them ready, by one query. */
async function read(client: pg.Client, needsPassword: boolean): Promise<Known> {
  const { rows } = await client.query<{
    is_super: string
    oid: string
    kept: string | null
    sound: string
    owned: string
  }>(
    `select (select rolsuper from pg_catalog.pg_roles where rolname = current_user) as is_super, d.oid::text as oid,
       (select value::text from svc.settings where key = 'admin_logins') as kept,
       (select pg_catalog.count(*) from pg_catalog.pg_proc f join pg_catalog.pg_roles o on o.oid = f.proowner
        where not o.rolsuper and (f.oid in ('svc.log_statement()'::pg_catalog.regprocedure, 'svc.log_change()'::pg_catalog.regprocedure)
          and o.rolname = '${LOGGER}' or f.oid in (${FOUND_BY.map((name) => `'${name}'::pg_catalog.regprocedure`).join(', ')}) and o.rolname = '${FINDER}')) as owned,
       (select coalesce(pg_catalog.json_agg(r.rolname), '[]')::text from pg_catalog.pg_roles r
        where ${IS_SOUND} and ${IS_GRANTED} and r.rolname in (
          select l.name || case when $2 = 't' then '_' || d.oid else '' end from pg_catalog.unnest($1::text[]) as l(name))) as sound
     from pg_catalog.pg_database d where d.datname = pg_catalog.current_database()`,
    [KINDS.map((kind) => ADMIN_LOGINS[kind]), needsPassword ? 't' : 'f'],
  )
  const [row] = rows
  const kept = JSON.parse(row?.kept ?? '{}') as { passwords?: Record<string, string>; schemas?: string[] }
  return {
    isSuper: row?.is_super === 't',
    suffix: needsPassword ? `_${row?.oid}` : '',
    passwords: kept.passwords ?? {},
    schemas: kept.schemas ?? [],
    sound: JSON.parse(row?.sound ?? '[]') as string[],
    hasOwners: Number(row?.owned) === 2 + FOUND_BY.length,
  }
}

const isReady = (known: Known, schemas: readonly string[], needsPassword: boolean): boolean =>
  known.sound.length === KINDS.length &&
  (known.hasOwners || !known.isSuper) &&
  schemas.every((schema) => known.schemas.includes(schema)) &&
  (!needsPassword || KINDS.every((kind) => known.passwords[kind] !== undefined))

async function make(
  client: pg.Client,
  known: Known,
  schemas: readonly string[],
  needsPassword: boolean,
): Promise<Known> {
  const passwords = { ...known.passwords }
  for (const kind of KINDS) {
    const user = `${ADMIN_LOGINS[kind]}${known.suffix}`
    await client.query(createLogin(user))
    if (!needsPassword) continue
    const password = passwords[kind] ?? randomBytes(32).toString('hex')
    passwords[kind] = password
    await client.query(`alter role ${user} password '${scramVerifier(password)}'`)
  }
  if (known.isSuper) {
    await client.query(OWN_LOGGER)
    await client.query(OWN_FINDER)
  }
  const [writer = '', reader = '', ...others] = KINDS.map((kind) => `${ADMIN_LOGINS[kind]}${known.suffix}`)
  await client.query(
    `grant usage on schema svc to ${writer}, ${reader}; grant select on svc.objects to ${writer}, ${reader};
     revoke all on schema svc from ${others.join(', ')}`,
  )
  const readers = [...others, ...(known.isSuper ? [FINDER] : [])]
  for (const schema of schemas) await client.query(defaultPrivileges(schema, writer, [reader, ...readers]))
  await client.query('select svc.grant_logins($1, $2, $3, $4)', [schemas, writer, reader, readers])
  await client.query(
    `insert into svc.settings (key, value) values ('admin_logins', $1)
     on conflict (key) do update set value = excluded.value`,
    [JSON.stringify({ schemas, ...(needsPassword && { passwords }) })],
  )
  return { ...known, passwords, schemas: [...schemas] }
}

const OWN_LOGGER = `
  do $$ begin
    if not exists (select from pg_catalog.pg_roles where rolname = '${LOGGER}') then
      create role ${LOGGER} nologin noinherit;
    end if;
  exception when duplicate_object or unique_violation then null;
  end $$;
  do $$ begin
    if exists (select from pg_catalog.pg_roles r where r.rolname = '${LOGGER}' and (r.rolsuper or r.rolcanlogin or r.rolbypassrls
        or exists (select from pg_catalog.pg_auth_members m where m.member = r.oid))) then
      raise exception 'the role ${LOGGER} must not log in, be a superuser, bypass RLS or be a member of other roles';
    end if;
  end $$;
  select svc.grant_logger();
  alter function svc.log_statement() owner to ${LOGGER};
  alter function svc.log_change() owner to ${LOGGER}`

const OWN_FINDER = `
  do $$ begin
    if not exists (select from pg_catalog.pg_roles where rolname = '${FINDER}') then
      create role ${FINDER} nologin noinherit bypassrls;
    end if;
  exception when duplicate_object or unique_violation then null;
  end $$;
  do $$ begin
    if exists (select from pg_catalog.pg_roles r where r.rolname = '${FINDER}' and (r.rolsuper or r.rolcanlogin or not r.rolbypassrls
        or r.rolcreaterole or r.rolcreatedb or r.rolreplication
        or exists (select from pg_catalog.pg_auth_members m where m.member = r.oid))) then
      raise exception 'the role ${FINDER} must bypass RLS, not log in, and be neither more nor a member of other roles';
    end if;
  end $$;
  select svc.grant_finder();
  ${FOUND_BY.map((name) => `alter function ${name} owner to ${FINDER}`).join('; ')}`

// Roles belong to the cluster: the server of another database may be making the same one.
const createLogin = (user: string): string => `
  do $$ begin
    if not exists (select from pg_catalog.pg_roles where rolname = '${user}') then
      create role ${user};
    end if;
  exception when duplicate_object or unique_violation then null;
  end $$;
  do $$ begin
    if not exists (select from pg_catalog.pg_roles r where r.rolname = '${user}' and ${IS_SOUND}) then
      alter role ${user} login noinherit bypassrls nosuperuser nocreatedb nocreaterole noreplication;
    end if;
    if not exists (select from pg_catalog.pg_roles r where r.rolname = '${user}' and ${IS_SOUND}) then
      raise exception 'the role ${user} must not be a member of other roles';
    end if;
    if not pg_catalog.has_database_privilege('${user}', pg_catalog.current_database(), 'connect') then
      execute pg_catalog.format('grant connect on database %I to ${user}', pg_catalog.current_database());
    end if;
  end $$`

/** Of what the server itself will make; what others make is granted when the schema is read again. */
const defaultPrivileges = (schema: string, writer: string, readers: readonly string[]): string => {
  const change = `alter default privileges in schema ${quote(schema)} grant`
  return `
    ${change} select, insert, update, delete on tables to ${writer};
    ${change} usage, select on sequences to ${writer};
    ${change} execute on functions to ${writer};
    ${change} select on tables to ${readers.join(', ')};
    ${change} select on sequences to ${readers.join(', ')}`
}

/** A pooler may use one login for all clients. */
async function requireArrival(address: ConnectOptions, login: DatabaseLogin): Promise<void> {
  const client = await openConnection({ ...address, login })
  try {
    const { rows } = await client.query<{ name: string }>('select session_user as name')
    if (rows[0]?.name !== login.user) throw new Error(`${login.user} arrives in the database as ${rows[0]?.name}`)
  } finally {
    await client.end().catch(() => {})
  }
}

/** Grants the logins what other roles made since. */
export const grantNew = async (
  db: Db,
  { owner, writers, readers, operator, viewer }: AdminLogins,
  schemas: readonly string[],
) => {
  if (!writers || !readers) return
  const others = [operator, viewer].flatMap((login) => (login ? [login.user] : []))
  if (owner) others.push(FINDER)
  await db.run(SYSTEM, sql`select svc.grant_logger(), svc.grant_finder()`)
  await db.run(
    SYSTEM,
    sql`select svc.grant_logins(${schemas}::text[], ${writers.user}, ${readers.user}, ${others}::text[])`,
  )
}
