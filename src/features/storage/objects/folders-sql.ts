import { EMPTY, join, type Sql, sql } from '../../../db/sql.ts'
import { isMatch, type NamePage } from './sql.ts'

/**
 * Which objects `o` a caller sees, as conditions each of which has an index: all of them (also where row security hides
 * some), or in a private bucket the caller's own and those without owner.
 */
export type VisibleKinds = readonly [Sql, ...Sql[]]

export const ALL_OBJECTS: VisibleKinds = [sql`true`]

export const ownAndOwnerless = (userId: string | null): VisibleKinds => [
  sql`not o.is_operators and o.owner = ${userId}::pg_catalog.uuid`,
  sql`not o.is_operators and o.owner is null`,
]

/** The smallest visible name from `cursor` on, as `n.name`; null when there is none. */
const nextName = (page: NamePage, kinds: VisibleKinds, cursor: Sql): Sql => {
  const firsts = kinds.map(
    (isVisible) => sql`(select o.name from svc.objects o where ${isVisible} and ${isMatch(page)} and o.name >= ${cursor}
      order by o.name limit 1)`,
  )
  return sql`(select pg_catalog.min(f.name) as name from (${join(firsts, sql` union all `)}) f) n`
}

/** Names behind `after`: a folder is behind with all that is in it. A character that no name has is next to a name. */
const behind = (after: string): Sql =>
  after.endsWith('/') ? sql`${`${after.slice(0, -1)}0`}::text` : sql`${`${after}\u0001`}::text`

/**
 * {items, folders, totalItems}: what is directly behind the prefix. It goes from name to name by the index and past each
 * folder at once ('0' is next to '/'), so its cost is that of the page, whatever the folders hold.
 */
export function listFolders(page: NamePage, kinds: VisibleKinds, record: Sql): Sql {
  const { bucket, prefix, after, limit, offset } = page
  const length = Array.from(prefix).length
  const step = (cursor: Sql): Sql => sql`(
      select case when s.slash > 0 then pg_catalog.left(n.name, ${length} + s.slash) else n.name end as name, s.slash > 0 as is_folder,
        case when s.slash > 0 then pg_catalog.left(n.name, ${length} + s.slash - 1) || '0' else n.name || pg_catalog.chr(1) end as next
      from ${nextName(page, kinds, cursor)}
      cross join lateral (select pg_catalog.strpos(pg_catalog.substr(n.name, ${length} + 1), '/') as slash) s
      where n.name is not null) e`
  const start = sql`(case when ${after}::text collate "C" < ${prefix}::text then ${prefix}::text else ${after === '' ? sql`''` : behind(after)} end)`
  const counts = kinds.map(
    (isVisible) => sql`(select pg_catalog.count(*) from svc.objects o where ${isVisible} and ${isMatch(page)})`,
  )
  return sql`
    with recursive entry(n, name, is_folder, next) as (
      select 1, e.name, e.is_folder, e.next from ${step(start)}
      union all
      select entry.n + 1, e.name, e.is_folder, e.next from entry cross join lateral ${step(sql`entry.next`)}
      where entry.n < ${limit + offset}::pg_catalog.int8
    ), shown as materialized (select * from entry where entry.n > ${offset}::pg_catalog.int8)
    select pg_catalog.json_build_object(
      'items', (select coalesce(pg_catalog.json_agg(${record} order by o.name), '[]') from shown
        join svc.objects o on o.bucket = ${bucket} and o.name = shown.name where not shown.is_folder),
      'folders', (select coalesce(pg_catalog.json_agg(shown.name order by shown.name), '[]') from shown where shown.is_folder),
      'totalItems', ${join(counts, sql` + `)})::text`
}

export type ZippedFile = { name: string; blobId: string; size: number; updatedAt: Date }

/** A page of files for an archive, by name. */
export const filesBehind = (page: NamePage, kinds: VisibleKinds): Sql => {
  const parts = kinds.map(
    (isVisible) => sql`(select o.name, o.blob_id, o.size, o.updated_at from svc.objects o
      where ${isVisible} and ${isMatch(page)} ${page.after === '' ? EMPTY : sql`and o.name > ${page.after}`}
      order by o.name limit ${page.limit}::pg_catalog.int8)`,
  )
  return sql`select f.name, f.blob_id::text as "blobId", f.size, f.updated_at as "updatedAt"
    from (${join(parts, sql` union all `)}) f order by f.name limit ${page.limit}::pg_catalog.int8`
}

export const countFiles = (page: NamePage, kinds: VisibleKinds): Sql => {
  const counts = kinds.map(
    (isVisible) => sql`(select pg_catalog.count(*) from (
      select from svc.objects o where ${isVisible} and ${isMatch(page)} limit ${page.limit}::pg_catalog.int8) c)`,
  )
  return sql`select (${join(counts, sql` + `)})::text as count`
}
