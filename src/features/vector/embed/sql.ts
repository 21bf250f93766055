import { equals } from '../../../db/rows/keys.ts'
import { definitions } from '../../../db/rows/write.ts'
import type { Column, Table } from '../../../db/schema/snapshot.ts'
import { COMMA, Ident, integerLiteral, join, ROW, rfc3339, type Sql, sql } from '../../../db/sql.ts'

export type Embedding = { id: string; schema: string; table: string; columns: string[]; vector_column: string }

export const EMBEDDING_KIND = 'embed'

const RECORD = sql`json_build_object('id', e.id, 'schema', e.schema_name, 'table', e.table_name, 'columns', e.columns,
  'vector_column', e.vector_column, 'status', case when e.filled then 'following' else 'filling' end,
  'embedded', e.embedded, 'refused', e.refused,
  'waiting', (select count(*) from (select from svc.queue q where q.kind = ${EMBEDDING_KIND} and q.group_key = e.id::text limit 10000) w),
  'last_error', e.last_error, 'last_embedded_at', ${rfc3339(sql`e.last_embedded_at`)}, 'created_at', ${rfc3339(sql`e.created_at`)})`

export const allEmbeddings: Sql = sql`
  select json_build_object('embeddings', coalesce(json_agg(${RECORD} order by e.created_at, e.id), '[]'))::text
  from svc.embeddings e`

/** An existing embedding starts again, possibly with other columns. */
export const addEmbedding = (input: Omit<Embedding, 'id'>): Sql => sql`
  insert into svc.embeddings as e (schema_name, table_name, columns, vector_column)
  values (${input.schema}, ${input.table}, ${input.columns}::text[], ${input.vector_column})
  on conflict (schema_name, table_name, vector_column)
  do update set columns = excluded.columns, filled = false, last_error = null
  returning ${RECORD}::text`

export const removeEmbedding = (id: string): Sql => sql`delete from svc.embeddings where id = ${id}::uuid returning id`

export const oneEmbedding = (id: string): Sql => sql`
  select id, schema_name as schema, table_name as "table", columns, vector_column from svc.embeddings where id = ${id}::uuid`

export const watch = (table: Table): Sql => sql`select svc.watch(${table.ident.quoted}::regclass)`

export type EmbeddingProgress = { embedded: number; refused: number }

export const recordProgress = (id: string, { embedded, refused }: EmbeddingProgress): Sql => sql`
  update svc.embeddings set embedded = embedded + ${embedded}::int, refused = refused + ${refused}::int, last_error = null,
    last_embedded_at = case when ${embedded}::int > 0 then now() else last_embedded_at end
  where id = ${id}::uuid`

export const recordFailure = (id: string, error: string): Sql =>
  sql`update svc.embeddings set last_error = ${error} where id = ${id}::uuid`

export const recordFilled = (id: string): Sql => sql`update svc.embeddings set filled = true where id = ${id}::uuid`

export const anyEmbedding: Sql = sql`exists (select from svc.embeddings)`

/** Rows per queue item, and texts per request to the provider. */
const CHUNK = 50

/** The request id of the worker's own writes in the log, which only the server can have as the actor `system`. */
const OWN_WRITE = 'embedding'

/** For the flight that writes vectors. */
export const ownWrite: Sql = sql`select pg_catalog.set_config('svc.request_id', ${OWN_WRITE}, true)`

/**
 * The rows of the reader's batch that need a vector: those without one, and those whose text changed while the vector did
 * not. Vectors written by a client together with the text are kept. A row that the worker itself wrote and a trigger left
 * without its vector would come back for ever, so it needs another text first.
 */
export const rowsToEmbed: Sql = sql`
  select id::text as group_key, jsonb_build_object('embedding', id, 'keys', jsonb_agg(distinct pk::text)) as payload
  from (
    select e.id, c.pk, (row_number() over (partition by e.id order by c.id) - 1) / ${integerLiteral(CHUNK)} as chunk
    from batch c join svc.embeddings e on c.table_oid = to_regclass(format('%I.%I', e.schema_name, e.table_name))
    cross join lateral (
      select c.actor ->> 'kind' = 'system' and c.request_id = ${OWN_WRITE} as "isOwn", exists (
        select from unnest(e.columns) as source where c.record -> source is distinct from c.old_record -> source) as "isNew"
    ) w
    where c.action in ('create', 'update') and c.pk <> '{}' and case
      when coalesce(c.record -> e.vector_column, 'null') = 'null' then w."isNew" or w."isOwn" is not true
      else w."isNew" and c.old_record -> e.vector_column = c.record -> e.vector_column end
  ) wanted group by id, chunk`

/** Most models refuse or truncate longer texts. */
const MAX_CHARACTERS = 8_000
const GIVEN = new Ident('svc_given')

const textOf = (columns: readonly Column[]): Sql => {
  const texts = columns.map(({ ident }) => sql`${ROW}.${ident}::text`)
  return sql`pg_catalog.btrim(pg_catalog.left(pg_catalog.concat_ws(E'\n', ${join(texts, COMMA)}), ${integerLiteral(MAX_CHARACTERS)}), E' \t\r\n')`
}

const keyOf = (table: Table): Sql => {
  const parts = table.primaryKey.map(({ name, ident }) => sql`${name}::text, ${ROW}.${ident}`)
  return sql`pg_catalog.jsonb_build_object(${join(parts, COMMA)})::text`
}

const isGiven = (table: Table): Sql =>
  join(
    table.primaryKey.map((column) => equals(column, ROW, sql`${GIVEN}.${column.ident}`)),
    sql` and `,
  )

const keysFrom = (table: Table, key: Sql): Sql =>
  sql`pg_catalog.jsonb_to_record(${key}::jsonb) as ${GIVEN}(${definitions(table.primaryKey)})`

export type EmbeddingTarget = { table: Table; sources: readonly Column[]; vector: Column }
/** `position` is the physical location of the row, from which the next page starts. */
export type EmbeddingSource = { key: string; text: string; isNull: boolean; position: string }

const SELECT = ({ table, sources, vector }: EmbeddingTarget): Sql => sql`
  select ${keyOf(table)} as key, ${textOf(sources)} as text, ${ROW}.${vector.ident} is null as "isNull",
    ${ROW}.tableoid::text || ' ' || ${ROW}.ctid::text as position`

export const rowsByKey = (target: EmbeddingTarget, keys: readonly string[]): Sql => sql`
  ${SELECT(target)} from unnest(${keys}::text[]) as svc_keys(key)
  cross join lateral ${keysFrom(target.table, sql`svc_keys.key`)}
  join ${target.table.ident} as ${ROW} on ${isGiven(target.table)}`

/** The next rows without a vector in physical order, so that every page costs the same. */
export function rowsAfter(target: EmbeddingTarget, position: string): Sql {
  const { table, sources, vector } = target
  const [oid = '0', tid = '(0,0)'] = position.split(' ')
  const isAfter =
    table.kind === 'partitioned_table'
      ? sql`(${ROW}.tableoid, ${ROW}.ctid) > (${oid}::oid, ${tid}::tid)`
      : sql`${ROW}.ctid > ${tid}::tid`
  return sql`${SELECT(target)} from ${table.ident} as ${ROW}
    where ${isAfter} and ${ROW}.${vector.ident} is null and ${textOf(sources)} <> ''
    order by ${table.kind === 'partitioned_table' ? sql`${ROW}.tableoid, ${ROW}.ctid` : sql`${ROW}.ctid`} limit ${integerLiteral(CHUNK)}`
}

/** Rows whose text changed meanwhile are skipped: they have a queue item of their own. `vector` null clears the column. */
export const writeVectors = (
  { table, sources, vector }: EmbeddingTarget,
  rows: readonly { key: string; text: string; vector: string | null }[],
): Sql => sql`
  update ${table.ident} as ${ROW} set ${vector.ident} = svc_new.vector::${vector.castType}
  from unnest(${rows.map(({ key }) => key)}::text[], ${rows.map(({ text }) => text)}::text[],
    ${rows.map((row) => row.vector)}::text[]) as svc_new(key, text, vector)
  cross join lateral ${keysFrom(table, sql`svc_new.key`)}
  where ${isGiven(table)} and ${textOf(sources)} = svc_new.text
  returning ${ROW}.${vector.ident} is not null as "isFilled"`
