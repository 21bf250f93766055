import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import type pg from 'pg'
import { reasonOf } from '../../core/errors.ts'
import { type ConnectOptions, type DatabaseLogin, openConnection } from '../protocol/driver.ts'
import { withMigrationLock } from './migrate.ts'

/** Login for clusters without passwords; shared by all databases of the cluster. */
const TRUSTED = 'svc_authenticator'
const ROLE_RULE = 'must log in, not be a superuser, bypass RLS or inherit, and become the request roles alone'

/** Over `r`, the role: it is or may become more than the request roles and that of hook functions. */
const IS_PRIVILEGED = `(r.rolsuper or r.rolbypassrls or r.rolinherit or exists (
  select from pg_catalog.pg_auth_members m join pg_catalog.pg_roles other on other.oid = m.roleid
  where m.member = r.oid and other.rolname not in ('svc_anon', 'svc_authenticated', 'svc_hooks')))`

/**
 * The login for the requests of callers: it owns nothing and may only become the request roles, so that RESET ROLE in a
 * function gains nothing. Undefined, with a warning for the operator, where it cannot be created.
 * See docs/decisions/access.md.
 */
export async function prepareAuthenticator(
  client: pg.Client,
  address: ConnectOptions,
): Promise<{ login: DatabaseLogin | undefined; warnings: string[] }> {
  // If this fails, the attempt below reports why.
  const existing = await existingLogin(client).catch(() => undefined)
  if (existing && (await canLogIn(address, existing))) return { login: existing, warnings: [] }
  return withMigrationLock(client, async () => {
    try {
      const { rows } = await client.query<{ version: string; own: string; secret: string | null }>(`
        select pg_catalog.current_setting('server_version_num') as version,
          '${TRUSTED}_' || (select oid from pg_catalog.pg_database where datname = current_database()) as own,
          (select value ->> 'password' from svc.settings where key = 'authenticator') as secret`)
      const { version = '0', own = TRUSTED, secret = null } = rows[0] ?? {}
      const membership = Number(version) >= 160_000 ? 'with inherit false, set true' : ''
      if (secret === null) {
        await client.query(makeRole(TRUSTED, membership))
        if (await canLogIn(address, { user: TRUSTED })) return { login: { user: TRUSTED }, warnings: [] }
      }
      return { login: await withPassword(client, address, { own, secret, membership }), warnings: [] }
    } catch (error) {
      const warning = `requests of callers connect as the server itself, for want of a login of their own: ${reasonOf(error)}`
      return { login: undefined, warnings: [warning] }
    }
  })
}

/** The login of an earlier start. Nearly every start finds it, and then needs no lock. */
async function existingLogin(client: pg.Client): Promise<DatabaseLogin | undefined> {
  const { rows } = await client.query<{ name: string; secret: string | null }>(`
    select r.rolname as name, known.secret
    from (select (select value ->> 'password' from svc.settings where key = 'authenticator') as secret) known
    join pg_catalog.pg_roles r on r.rolname = '${TRUSTED}' || case when known.secret is null then ''
      else '_' || (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database()) end
    where r.rolcanlogin and not ${IS_PRIVILEGED}
      and (select pg_catalog.count(*) from pg_catalog.pg_auth_members m
           join pg_catalog.pg_roles requests on requests.oid = m.roleid
           where m.member = r.oid and requests.rolname in ('svc_anon', 'svc_authenticated')) >= 2
      and pg_catalog.has_schema_privilege(r.oid, 'svc', 'usage')
      and pg_catalog.has_database_privilege(r.oid, pg_catalog.current_database(), 'connect')`)
  const [found] = rows
  return found && { user: found.name, ...(found.secret !== null && { password: found.secret }) }
}

/** Roles belong to the cluster, but the password is stored in one database, so each database has a role of its own. */
async function withPassword(
  client: pg.Client,
  address: ConnectOptions,
  { own, secret, membership }: { own: string; secret: string | null; membership: string },
): Promise<DatabaseLogin> {
  const password = secret ?? randomBytes(32).toString('hex')
  const login = { user: own, password }
  if (secret !== null && (await canLogIn(address, login))) return login
  await client.query(makeRole(own, membership))
  await client.query(`alter role ${own} password '${scramVerifier(password)}'`)
  const refusal = await refusalOf(address, login)
  if (refusal) throw new Error(refusal)
  await client.query(
    `insert into svc.settings (key, value) values ('authenticator', $1)
     on conflict (key) do update set value = excluded.value`,
    [JSON.stringify({ password })],
  )
  return login
}

// The server of another database may be creating the same role.
const makeRole = (role: string, membership: string) => `
  do $$ begin
    if not exists (select from pg_catalog.pg_roles where rolname = '${role}') then
      create role ${role} login noinherit;
    end if;
  exception when duplicate_object or unique_violation then null;
  end $$;
  do $$ begin
    if (select count(*) from pg_catalog.pg_auth_members m
        where m.member = '${role}'::pg_catalog.regrole
          and m.roleid in ('svc_anon'::pg_catalog.regrole, 'svc_authenticated'::pg_catalog.regrole)) < 2 then
      grant svc_anon, svc_authenticated to ${role} ${membership};
    end if;
    if exists (select from pg_catalog.pg_roles r
               where r.rolname = '${role}' and (${IS_PRIVILEGED} or not r.rolcanlogin)) then
      raise exception 'the role ${role} ${ROLE_RULE}';
    end if;
    grant usage on schema svc to ${role};
    if not pg_catalog.has_database_privilege('${role}', pg_catalog.current_database(), 'connect') then
      execute pg_catalog.format('grant connect on database %I to ${role}', pg_catalog.current_database());
    end if;
  end $$`

const canLogIn = async (address: ConnectOptions, login: DatabaseLogin): Promise<boolean> =>
  (await refusalOf(address, login)) === undefined

/** Why this login cannot connect and become the request roles; undefined if it can. */
async function refusalOf(address: ConnectOptions, login: DatabaseLogin): Promise<string | undefined> {
  try {
    const client = await openConnection({ ...address, login })
    try {
      const { rows } = await client.query<{ name: string; privileged: string }>(`
        select session_user as name, ${IS_PRIVILEGED} as privileged
        from pg_catalog.pg_roles r where r.rolname = session_user`)
      // A pooler may use one login for all clients.
      if (rows[0]?.name !== login.user) return `${login.user} arrives in the database as ${rows[0]?.name}`
      if (rows[0].privileged !== 'f') return `the role ${login.user} ${ROLE_RULE}`
      await client.query('begin; set local role svc_anon; set local role svc_authenticated; rollback')
      return undefined
    } finally {
      await client.end().catch(() => {})
    }
  } catch (error) {
    return reasonOf(error)
  }
}

/** PostgreSQL's password verifier (RFC 5803), made here so that its statement log never has the password. */
export function scramVerifier(password: string): string {
  const iterations = 4096
  const salt = randomBytes(16)
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256')
  const hmac = (text: string) => createHmac('sha256', salted).update(text).digest()
  const stored = createHash('sha256').update(hmac('Client Key')).digest('base64')
  const [saltText, server] = [salt.toString('base64'), hmac('Server Key').toString('base64')]
  return `SCRAM-SHA-256$${iterations}:${saltText}$${stored}:${server}`
}
