import { type Sql, sql } from '../../db/sql.ts'

type Page = { page: number; perPage: number; offset: number }

/** The page envelope, newest first. `search` is a case-insensitive part of the address. */
export function listUsers({ page, perPage, offset }: Page, search: string): Sql {
  const pattern = `%${search.trim().replace(/[\\%_]/g, '\\$&')}%`
  const matches = search.trim() === '' ? sql`true` : sql`u.email ilike ${pattern}`
  return sql`
    with matching as (select count(*) as total from svc.users u where ${matches}),
    shown as (
      select u as account, u.created_at, u.id from svc.users u where ${matches}
      order by u.created_at desc, u.id desc limit ${perPage} offset ${offset}
    )
    select json_build_object(
      'items', (select coalesce(json_agg(svc.user_json(account) order by created_at desc, id desc), '[]') from shown),
      'page', ${page}::int, 'perPage', ${perPage}::int, 'totalItems', total,
      'totalPages', ceil(total::numeric / ${perPage}::int)::int)::text
    from matching`
}
