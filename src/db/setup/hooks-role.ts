import type pg from 'pg'
import { reasonOf } from '../../core/errors.ts'
import type { DatabaseLogin } from '../protocol/driver.ts'
import { withMigrationLock } from './migrate.ts'

/** What hook functions run as. It owns nothing and has what the operator grants it, and nothing of the schema svc. */
const HOOKS_ROLE = 'svc_hooks'

/** Over `r`. */
const IS_PLAIN = `(not (r.rolsuper or r.rolbypassrls or r.rolcanlogin or r.rolcreaterole or r.rolcreatedb or r.rolreplication)
  and not exists (select from pg_catalog.pg_auth_members m where m.member = r.oid)
  and not pg_catalog.has_schema_privilege(r.oid, 'svc', 'usage'))`

const MAY_MAKE = `(select rolsuper or rolcreaterole from pg_catalog.pg_roles where rolname = current_user)`

/** An SQL expression: it is there, or this server cannot make it. */
export const HAS_HOOKS_ROLE = `(exists (select from pg_catalog.pg_roles where rolname = '${HOOKS_ROLE}') or not ${MAY_MAKE})`

/** Roles belong to the cluster, so the server of another database may be making it. */
export const createHooksRole = `
  do $$ begin
    if not ${HAS_HOOKS_ROLE} then
      create role ${HOOKS_ROLE} nologin noinherit;
    end if;
  exception when duplicate_object or unique_violation then null;
  end $$`

/**
 * Lets the login of callers become the role, where a hook function is configured. Answers why hook functions cannot be called:
 * without such a login they would run on a connection of the server's, which they could become.
 */
export async function prepareHooksRole(
  client: pg.Client,
  callers: DatabaseLogin | undefined,
): Promise<string | undefined> {
  if (!callers) return 'hook functions are not called, for want of a login for callers'
  const isReady = async (): Promise<boolean> => {
    const { rows } = await client.query<{ ready: string }>(
      `select ${IS_PLAIN} and exists (select from pg_catalog.pg_auth_members m join pg_catalog.pg_roles c on c.oid = m.member
         where m.roleid = r.oid and c.rolname = $1) as ready from pg_catalog.pg_roles r where r.rolname = '${HOOKS_ROLE}'`,
      [callers.user],
    )
    return rows[0]?.ready === 't'
  }
  try {
    if (await isReady()) return undefined
    await withMigrationLock(client, async () => {
      await client.query(createHooksRole)
      const { rows } = await client.query<{ version: string }>(
        `select pg_catalog.current_setting('server_version_num') as version`,
      )
      const membership = Number(rows[0]?.version) >= 160_000 ? 'with inherit false, set true' : ''
      await client.query(`grant ${HOOKS_ROLE} to ${callers.user} ${membership}`)
      if (await isReady()) return
      throw new Error(
        `the role ${HOOKS_ROLE} must not log in, be more than a plain role, or have anything of schema svc`,
      )
    })
    return undefined
  } catch (error) {
    return `hook functions are not called: ${reasonOf(error)}`
  }
}
