import { AppError, notFound } from '../../core/errors.ts'
import { type Identity, SYSTEM, userIdOf } from '../../core/identity.ts'
import { MASK } from '../../core/redact.ts'
import type { Db } from '../db.ts'
import { keyText } from '../rows/change-logging.ts'
import type { TableView } from '../rows/table-view.ts'
import { mayDo } from '../schema/lookup.ts'
import type { Table } from '../schema/snapshot.ts'
import { EMPTY, join, rfc3339, type Sql, sql } from '../sql.ts'
import { type ImagePair, type ImageSecurity, judgedChanges, rowSecurity } from './judged.ts'

export type HistoryConfig = {
  access: 'opened' | 'policies' | 'admin'
  /** Seconds. */
  retention: number
}

/** What a caller may see of a table's history. */
export type HistoryAccess = { readonly seesActors: boolean }

/**
 * Throws unless the caller may read the history of the table. Opening is read each time, so it holds everywhere at once.
 */
export async function requireHistory(
  db: Db,
  { access }: HistoryConfig,
  who: Identity,
  { table, viewer }: TableView,
): Promise<HistoryAccess> {
  if (who.kind === 'admin') return { seesActors: true }
  if (!mayDo(table, viewer.role, 'select')) {
    throw notFound(`collection not found: ${table.name}`, 'collection_not_found')
  }
  if (who.kind === 'anonymous' || access === 'admin') throw notOpen()
  if (access === 'policies') return { seesActors: true }
  const actor = await db.fly(SYSTEM, sql`select actor::text from svc.open_histories where target = ${table.oid}::oid`)
  if (actor === null) throw notOpen()
  return { seesActors: actor === 'true' }
}

const notOpen = (): AppError => notFound('history is not open', 'history_closed')

/** Columns of a told change `c`, as one JSON object without `changes`. */
const HEAD = sql`jsonb_strip_nulls(jsonb_build_object('undoes', (select u.undoes from svc.undone u where u.xid = c.xid)))
  || jsonb_build_object('id', c.id::text, 'transaction', c.xid::text, 'at', ${rfc3339(sql`c.at`)}, 'action', c.action,
    'table', svc.table_label(c.schema_name, c.table_name), 'key', c.key, 'actor', c.actor, 'request_id', c.request_id)`

const WHOLE = sql`${HEAD} || jsonb_build_object('changes', svc.image_changes(c.action, c.old_whole, c.new_whole, null))`

/** Columns of secrets, as in the audit trail, and of codes that let somebody in. */
const SECRET_COLUMNS =
  'password|secret|token|(^|_)otp$|(^|_)pin$|(verification|confirmation|recovery|reset|login|backup)_codes?$'

/** As WHOLE, without the values of such columns. */
const MASKED = sql`${HEAD} || jsonb_build_object('changes', (
  select coalesce(jsonb_object_agg(m.name, case when m.name ~* ${SECRET_COLUMNS} then (
    select jsonb_object_agg(v.side, case when v.value = 'null' then v.value else to_jsonb(${MASK}::text) end)
    from jsonb_each(m.value) as v(side, value)) else m.value end), '{}')
  from jsonb_each(svc.image_changes(c.action, c.old_whole, c.new_whole, null)) as m(name, value)))`

export type ChangeFilter = {
  readonly table?: string
  readonly key?: string
  readonly user?: string
  readonly requestId?: string
  readonly transaction?: string
  readonly from?: Date
  readonly to?: Date
}

/** The key of several columns, however its JSON array is spaced. */
function arrayText(key: string): string | null {
  try {
    return Array.isArray(JSON.parse(key)) ? key : null
  } catch {
    return null
  }
}

const conditionsOf = (filter: ChangeFilter): Sql => {
  const { table, key, user, requestId, transaction, from, to } = filter
  const parts = [
    sql`true`,
    ...(table === undefined ? [] : [sql`${table}::text in (c.table_name::text, c.schema_name || '.' || c.table_name)`]),
    ...(key === undefined ? [] : [sql`c.key_text in (${key}, ${arrayText(key)}::jsonb::text)`]),
    ...(user === undefined
      ? []
      : [sql`(c.actor ->> 'userId' = ${user} or (c.actor ->> 'kind' = 'user' and c.actor ->> 'id' = ${user}))`]),
    ...(requestId === undefined ? [] : [sql`c.request_id = ${requestId}`]),
    ...(transaction === undefined ? [] : [sql`c.xid = ${transaction}::xid8`]),
    ...(from === undefined ? [] : [sql`c.at >= ${from}::timestamptz`]),
    ...(to === undefined ? [] : [sql`c.at <= ${to}::timestamptz`]),
  ]
  return join(parts, sql` and `)
}

const isKept = (retention: number): Sql => sql`c.at > now() - make_interval(secs => ${retention}::float8)`

const LAST = '9223372036854775807'

/** A page of the whole log, newest first, as rows of JSON text without secrets. `before`: the id of the last change of the page before. */
export const selectChanges = (
  filter: ChangeFilter,
  retention: number,
  page: { before: string | undefined; limit: number },
): Sql => sql`
  select c.id::text as id, (${MASKED})::text as text from svc.told_changes c
  where ${conditionsOf(filter)} and ${isKept(retention)} and c.id < ${page.before ?? LAST}::bigint
    and c.entry < ${page.before ?? LAST}::bigint
  order by c.entry desc, c.id desc limit ${page.limit}::int`

/** The ids and transactions of changes, by a filter or one by one. */
export const selectIds = (
  filter: ChangeFilter,
  ids: readonly string[] | undefined,
  retention: number,
  limit: number,
): Sql => sql`
  select c.id::text as id, c.xid::text as xid from svc.told_changes c
  where ${conditionsOf(filter)} and ${isKept(retention)} ${
    ids && ids.length > 0
      ? sql`and c.id = any (${ids}::bigint[]) and c.entry in (
    select (select e.id from svc.change_log e where e.id <= i.id order by e.id desc limit 1) from unnest(${ids}::bigint[]) as i(id))`
      : EMPTY
  }
  order by c.entry desc, c.id desc limit ${limit}::int`

/** The key of a row as the log is searched by it. */
export const logKeyOf = ({ primaryKey }: Table, key: readonly string[]): Sql =>
  keyText(primaryKey, ({ castType }, i) => sql`${key[i] ?? ''}::${castType}`)

type RawChange = Omit<ImagePair, 'n' | 'isNow'> & { id: string; head: string; whole: string; isMine: boolean }

const rowChanges = (
  target: TableView,
  key: string,
  retention: number,
  userId: string | null,
  { before, limit }: { before: string | undefined; limit: number },
): Sql => sql`
  select c.id::text as id, (${HEAD})::text as head, (${WHOLE})::text as whole, c.action, c.key::text as key,
    c.old_now::text as old, c.new_now::text as new,
    coalesce(c.actor ->> 'userId' = ${userId} or (c.actor ->> 'kind' = 'user' and c.actor ->> 'id' = ${userId}), false) as "isMine"
  from (
    select v.entry, v.id from svc.changes_of(${target.table.oid}::oid, ${key}) v
    where v.id < ${before ?? LAST}::bigint order by v.id desc limit ${limit}::int
  ) found join svc.told_changes c on c.entry = found.entry and c.id = found.id
  where ${isKept(retention)} order by c.id desc`

const READ = { kind: 'slow', plain: true } as const
/** Changes read at a time, until a page is full. */
const CHUNK = 100

export type HistoryPage = { items: string[]; nextCursor: string | null }

/**
 * The changes of one row that the caller may see, newest first. A page is filled from what is visible, so that it does not
 * show how much is hidden.
 */
export async function rowHistory(
  db: Db,
  who: Identity,
  target: TableView,
  key: readonly string[],
  options: { retention: number; access: HistoryAccess; before: string | undefined; perPage: number },
): Promise<HistoryPage> {
  const { retention, access, perPage } = options
  const items: { id: string; text: string }[] = []
  let before = options.before
  const security = who.kind === 'admin' ? undefined : await securityOf(db, target)
  // The key is made of values of the table's types, as the caller; the log is the server's.
  const text = await db.fly(who, sql`select ${logKeyOf(target.table, key)}`, { kind: 'slow' })
  for (let isLast = text === null; !isLast && items.length <= perPage; ) {
    const chunk = await db.rows<RawChange>(
      SYSTEM,
      rowChanges(target, text ?? '', retention, userIdOf(who), { before, limit: CHUNK }),
      READ,
    )
    isLast = chunk.length < CHUNK
    before = chunk.at(-1)?.id
    if (security === undefined) items.push(...chunk.map(({ id, whole }) => ({ id, text: whole })))
    else items.push(...(await visible(db, who, target, security, chunk, access)))
  }
  const shown = items.slice(0, perPage)
  return {
    items: shown.map(({ text }) => text),
    nextCursor: items.length > perPage ? (shown.at(-1)?.id ?? null) : null,
  }
}

export const securityOf = async (db: Db, { table, viewer }: TableView): Promise<ImageSecurity> =>
  JSON.parse((await db.fly(SYSTEM, rowSecurity(table.oid, viewer.role), READ)) ?? '{"rls":true,"isClosed":true}')

async function visible(
  db: Db,
  who: Identity,
  target: TableView,
  security: ImageSecurity,
  chunk: readonly RawChange[],
  access: HistoryAccess,
): Promise<{ id: string; text: string }[]> {
  if (chunk.length === 0) return []
  const pairs = chunk.map((change, n): ImagePair => ({ ...change, n, isNow: false }))
  let judged: { n: number; key: unknown; changes: string }[]
  try {
    judged = await db.rows(
      who,
      sql`select (j ->> 'n')::pg_catalog.int4 as n, (j -> 'changes')::text as changes, (j -> 'key')::text as key
        from pg_catalog.jsonb_array_elements((${judgedChanges(target, target.viewer.role, security, pairs)})::pg_catalog.jsonb) as j`,
      READ,
    )
  } catch (error) {
    // An image that is no row of the table as it is now shows nothing; the others still do.
    if (!(error instanceof AppError) || error.status === 503) throw error
    if (chunk.length === 1) return []
    const half = Math.ceil(chunk.length / 2)
    const parts = [chunk.slice(0, half), chunk.slice(half)]
    return (await Promise.all(parts.map((part) => visible(db, who, target, security, part, access)))).flat()
  }
  return judged.flatMap(({ n, changes, key }) => {
    const change = chunk[n]
    if (!change) return []
    const head = JSON.parse(change.head) as Record<string, unknown>
    if (!access.seesActors && !change.isMine) head['actor'] = null
    const { key: _key, ...rest } = head
    return [
      { id: change.id, text: `${JSON.stringify(rest).slice(0, -1)},"key":${key ?? 'null'},"changes":${changes}}` },
    ]
  })
}
