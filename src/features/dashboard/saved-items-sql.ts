import type { AdminRole } from '../../core/identity.ts'
import { rfc3339, type Sql, sql } from '../../db/sql.ts'

export type ItemKind = 'query' | 'view'

/** Of whom: a viewer's items are the viewer's own. */
export type Author = { readonly id: string | null; readonly name: string; readonly role: AdminRole }

const ITEM = sql`(jsonb_build_object('id', i.id, 'name', i.name) || i.content || jsonb_build_object('own', i.owner_id is not null,
  'author', i.author, 'role', i.author_role, 'createdAt', ${rfc3339(sql`i.created_at`)}, 'updatedAt', ${rfc3339(sql`i.updated_at`)}))`

const isSeenBy = ({ id }: Author): Sql => sql`(i.owner_id is null or i.owner_id = ${id}::uuid)`

export const savedItems = (kind: ItemKind, author: Author): Sql => sql`
  select json_build_object('items', coalesce(json_agg(${ITEM} order by lower(i.name), i.id), '[]'), 'count', count(*))::text
  from svc.saved_items i where i.kind = ${kind} and ${isSeenBy(author)}`

export const savedItem = (kind: ItemKind, id: string, author: Author): Sql => sql`
  select ${ITEM}::text from svc.saved_items i where i.kind = ${kind} and i.id = ${id}::uuid and ${isSeenBy(author)}`

/** Counts before it inserts, with others waiting, so that the count stays true. */
export const lockItems: Sql = sql`lock table svc.saved_items in share row exclusive mode`

export const countItems = (kind: ItemKind): Sql =>
  sql`select count(*)::int as count from svc.saved_items where kind = ${kind}`

export const insertItem = (kind: ItemKind, name: string, content: string, author: Author): Sql => sql`
  insert into svc.saved_items as i (kind, name, content, owner_id, author_id, author, author_role)
  values (${kind}, ${name}, ${content}::jsonb, ${author.role === 'viewer' ? author.id : null}::uuid, ${author.id}::uuid, ${author.name}, ${author.role})
  returning i.id::text, ${ITEM}::text as record`

/** A viewer changes the own ones alone. What is undefined stays. */
const isChangedBy = (author: Author): Sql =>
  author.role === 'viewer' ? sql`i.owner_id = ${author.id}::uuid` : sql`i.owner_id is null`

export const updateItem = (
  kind: ItemKind,
  id: string,
  { name, content }: { name?: string | undefined; content?: string | undefined },
  author: Author,
): Sql => sql`
  update svc.saved_items i set name = coalesce(${name ?? null}, i.name), content = i.content || coalesce(${content ?? null}::jsonb, '{}'),
    author_id = ${author.id}::uuid, author = ${author.name}, author_role = ${author.role}, updated_at = now()
  where i.kind = ${kind} and i.id = ${id}::uuid and ${isChangedBy(author)}
  returning i.id::text, ${ITEM}::text as record`

export const deleteItem = (kind: ItemKind, id: string, author: Author): Sql => sql`
  delete from svc.saved_items i where i.kind = ${kind} and i.id = ${id}::uuid and ${isChangedBy(author)} returning i.id::text, i.name`

/** With the lesser of the author's role then and now; of one who is gone the least. */
export const queryToRun = (id: string, reader: Author): Sql => sql`
  select i.id::text, i.name, i.content->>'query' as query, i.author, i.author_role as "authorRole",
    case when i.author_id is not null then (select a.role from svc.admins a where a.id = i.author_id)
      when i.author = 'admin' then 'owner' else 'viewer' end as "roleNow"
  from svc.saved_items i where i.kind = 'query' and i.id = ${id}::uuid and ${isSeenBy(reader)}`
