import { type Sql, sql } from '../../db/sql.ts'

export type AppRow = {
  id: string
  name: string
  description: string
  ownerUserId: string | null
  rateLimitRps: number
  rateLimitWindowSeconds: number
  createdAt: Date
  updatedAt: Date
}
export type AppFields = Pick<AppRow, 'name' | 'description' | 'rateLimitRps' | 'rateLimitWindowSeconds'>

const columns = sql`id::text as id, name, description, owner_user_id::text as "ownerUserId",
  rate_limit_rps as "rateLimitRps", rate_limit_window_seconds as "rateLimitWindowSeconds",
  created_at as "createdAt", updated_at as "updatedAt"`

export const appsPage = (limit: number, offset: number): Sql =>
  sql`select ${columns} from svc.apps order by created_at desc, id desc limit ${limit} offset ${offset}`

export const countApps: Sql = sql`select count(*) as total from svc.apps`

export const appById = (id: string): Sql => sql`select ${columns} from svc.apps where id = ${id}::uuid`

/** Returns no row when the owner does not exist. */
export const insertApp = (ownerUserId: string, app: AppFields): Sql => sql`
  insert into svc.apps (name, description, owner_user_id, rate_limit_rps, rate_limit_window_seconds)
  select ${app.name}, ${app.description}, u.id, ${app.rateLimitRps}::int, ${app.rateLimitWindowSeconds}::int
  from svc.users u where u.id = ${ownerUserId}::uuid for key share
  returning ${columns}`

export const updateApp = (id: string, app: AppFields): Sql => sql`
  update svc.apps set name = ${app.name}, description = ${app.description}, rate_limit_rps = ${app.rateLimitRps}::int,
         rate_limit_window_seconds = ${app.rateLimitWindowSeconds}::int, updated_at = now()
  where id = ${id}::uuid returning ${columns}`

/** Locks the app until it is deleted, so that no key can be created for it in between. */
export const lockApp = (id: string): Sql => sql`select from svc.apps where id = ${id}::uuid for update`

export const revokeKeysOfApp = (id: string): Sql => sql`
  with detached as (
    update svc.api_keys set app_id = null, revoked_at = coalesce(revoked_at, now())
    where id = any(array(select id from svc.api_keys where app_id = ${id}::uuid order by id for update))
    returning id
  )
  select svc.revoke('key', id::text) from detached`

export const deleteApp = (id: string): Sql => sql`delete from svc.apps where id = ${id}::uuid returning id`

export const limitOfApp = (id: string): Sql => sql`
  select rate_limit_rps as max, coalesce(nullif(rate_limit_window_seconds, 0), 60) as seconds
  from svc.apps where id = ${id}::uuid and rate_limit_rps > 0`
