import { type Sql, sql } from '../../db/sql.ts'

/** A key as the API shows it; its secret is shown only in the answer that creates it. */
export type KeyRecord = {
  id: string
  userId: string
  name: string
  keyPrefix: string
  scope: string
  allowedTables: string[]
  appId: string | null
  orgId: string | null
  lastUsedAt: Date | null
  expiresAt: Date | null
  createdAt: Date
  revokedAt: Date | null
}

const columns = sql`id::text as id, user_id::text as "userId", name, key_prefix as "keyPrefix", scope,
  allowed_tables as "allowedTables", app_id::text as "appId", org_id::text as "orgId", last_used_at as "lastUsedAt",
  expires_at as "expiresAt", created_at as "createdAt", revoked_at as "revokedAt"`

export const keysOfUser = (userId: string): Sql =>
  sql`select ${columns} from svc.api_keys where user_id = ${userId}::uuid order by created_at desc, id desc`

export const keysOfAll = (limit: number, offset: number): Sql =>
  sql`select ${columns} from svc.api_keys order by created_at desc, id desc limit ${limit} offset ${offset}`

export const countKeys: Sql = sql`select count(*) as total from svc.api_keys`

export type NewKey = {
  userId: string
  name: string
  scope: string
  allowedTables: readonly string[]
  appId: string | null
  orgId: string | null
  hash: string
  prefix: string
  byOperator: boolean
}

export const insertKey = (key: NewKey): Sql => sql`
  insert into svc.api_keys (user_id, name, key_hash, key_prefix, scope, allowed_tables, app_id, org_id, by_operator)
  values (${key.userId}::uuid, ${key.name}, ${key.hash}, ${key.prefix}, ${key.scope}, ${key.allowedTables}::text[],
          ${key.appId}::uuid, ${key.orgId}::uuid, ${key.byOperator})
  returning ${columns}`

export const countLiveKeys = (userId: string): Sql =>
  sql`select count(*)::int as count from svc.api_keys where user_id = ${userId}::uuid and revoked_at is null`

/** Of revoked keys a user keeps the latest. */
export const forgetRevokedKeys = (userId: string, keep: number): Sql => sql`
  delete from svc.api_keys where id = any(array(
    select id from svc.api_keys where user_id = ${userId}::uuid and revoked_at is not null
    order by revoked_at desc, id offset ${keep}::int))`

export const appExists = (appId: string): Sql => sql`select from svc.apps where id = ${appId}::uuid for key share`

/** Locked, the organisation first, so that neither it nor the membership can go before the key is there. */
export const membershipExists = (orgId: string, userId: string): Sql => sql`
  select from svc.members m join svc.organizations o on o.id = m.org_id
  where m.org_id = ${orgId}::uuid and m.user_id = ${userId}::uuid for key share of o, m`

/** Returns a row if the key was revoked by this call; the same transaction notifies all processes. */
export const revokeKey = (id: string, owner: string | null): Sql => sql`
  with gone as (
    update svc.api_keys set revoked_at = now()
    where id = ${id}::uuid and revoked_at is null and (${owner}::uuid is null or user_id = ${owner}::uuid)
    returning id
  )
  select svc.revoke('key', id::text) from gone`

export const keyByHash = (hash: string): Sql => liveKey(sql`k.key_hash = ${hash}`)

export const keyById = (id: string): Sql => liveKey(sql`k.id = ${id}::uuid`)

const liveKey = (condition: Sql): Sql => sql`
  select k.id::text as id, k.user_id::text as "userId", coalesce(u.email, '') as email, k.scope,
         k.allowed_tables as tables, k.app_id::text as "appId", k.org_id::text as "orgId", k.expires_at as "expiresAt"
  from svc.api_keys k join svc.users u on u.id = k.user_id
  where ${condition} and k.revoked_at is null and u.disabled_at is null and (k.expires_at is null or k.expires_at > now())
    and (k.org_id is null or exists (select from svc.members m where m.org_id = k.org_id and m.user_id = k.user_id))`

export const touchKeys = (ids: readonly string[]): Sql => sql`
  update svc.api_keys set last_used_at = now() where id = any(array(
    select id from svc.api_keys
    where id = any(${ids}::uuid[]) and (last_used_at is null or last_used_at < now() - interval '1 minute')
    for no key update skip locked))`

/** For an account whose address was proven by someone other than the creator of its keys. */
export const revokeKeysOf = (userId: string): Sql => revokeKeys(userId, sql`true`)

/** Keys of the operator stay. */
export const revokeOwnKeysOf = (userId: string): Sql => revokeKeys(userId, sql`not by_operator`)

const revokeKeys = (userId: string, condition: Sql): Sql => sql`
  with gone as (
    update svc.api_keys set revoked_at = now() where id = any(array(
      select id from svc.api_keys where user_id = ${userId}::uuid and revoked_at is null and ${condition}
      order by id for update))
    returning id
  )
  select svc.revoke('key', id::text) from gone`
