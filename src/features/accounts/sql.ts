import { type Sql, sql } from '../../db/sql.ts'

export const userJson = (id: string): Sql =>
  sql`select svc.user_json(u)::text from svc.users u where u.id = ${id}::uuid`

/** Foreign keys delete everything that belongs to the user. */
export const deleteUser = (id: string): Sql => sql`
  with gone as (delete from svc.users where id = ${id}::uuid returning id)
  select svc.revoke('user', id::text) from gone`
