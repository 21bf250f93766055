import * as t from '../../core/json-type.ts'
import { pageQuery } from '../../core/page.ts'

/** Contracts of the collection endpoints. The columns of a row come from the database. */

export const tableParam = t.string({ description: '`table` or `schema.table`' })
export const byKey = {
  tableParam,
  id: t.string({ description: 'the primary key; parts of a composite one are separated by commas' }),
}

export const rowQuery = {
  fields: t.string({ description: 'columns to answer, separated by commas' }),
  expand: t.string({ description: 'relations to answer with, separated by commas; nested with dots' }),
  as_of: t.string({ description: 'a time or a position of the change log: as it was then' }),
}

export const listQuery = {
  ...pageQuery,
  perPage: t.integer({ default: 20, maximum: 500 }),
  filter: t.string({ description: "such as `views > 10 AND (title ~ '%a%' OR author.name = 'Bo')`" }),
  sort: t.string({
    description:
      'columns separated by commas, `-` in front for descending; with PostGIS first `column.distance(lng,lat)`',
  }),
  ...rowQuery,
  cursor: t.string({ description: 'instead of `page`: empty for the first page, then the `nextCursor` of the last' }),
  total: t.oneOf(['exact', 'estimate', 'none'], { refusal: 'total must be exact, estimate or none' }),
  aggregate: t.string({
    description: '`count`, `count_distinct(col)`, `sum(col)`, `avg(col)`, `min(col)`, `max(col)`',
  }),
  group: t.string({ description: 'with `aggregate`: columns that make the groups, separated by commas' }),
  cut: t.integer({
    minimum: 1,
    maximum: 1_000_000,
    description: 'shortens text, JSON and bytes beyond so many characters, and names them in `_cut` of each row',
  }),
  skipTotal: t.boolean({ default: false, description: 'leave the rows uncounted: totals are -1' }),
  search: t.string({ description: 'words in the text columns, `"a phrase"`, `or`, `-excluded`; best matches first' }),
  fuzzy: t.boolean({ default: false, description: 'with `search`: also rows with similar words' }),
  typo_threshold: t.number({
    default: 0.2,
    minimum: 0,
    maximum: 1,
    description: 'with `fuzzy`: similarity above which rows are found',
  }),
  highlight: t.boolean({
    default: false,
    description: 'with `search`: items carry `_highlight` and `_highlightResult`',
  }),
  facets: t.string({ description: 'columns whose values are counted over all rows of the list, separated by commas' }),
  nearest: t.string({
    description: 'a vector such as `[0.1,0.2]` or `0.1,0.2`: the rows nearest to it, with their `_distance`',
  }),
  semantic_query: t.string({ description: 'a text: the rows nearest to its meaning' }),
  semantic: t.boolean({ default: false, description: 'with `search`: ranks of words and of meaning together' }),
  vector_column: t.string({ description: 'which column the vectors are in, where that is not clear' }),
  distance: t.string({ default: 'cosine', description: '`cosine`, `l2` or `inner_product`' }),
  near: t.string({ description: '`column,lng,lat,meters`: rows within a distance; needs PostGIS' }),
  within: t.string({ description: '`column,<GeoJSON Polygon or MultiPolygon>`: rows covered by an area' }),
  intersects: t.string({ description: '`column,<GeoJSON>`: rows that share a point with a geometry' }),
  bbox: t.string({ description: '`column,minLng,minLat,maxLng,maxLat`; minLng > maxLng crosses the date line' }),
}

export const liveQuery = {
  live: t.boolean({ default: false, description: 'a stream of server-sent events that keeps the list true' }),
  depends: t.string({ description: 'with `live`: further tables whose changes read the list again; views need it' }),
  keys: t.boolean({ default: false, description: 'with `live`: rows come with an array of their keys' }),
  lastEventId: t.string({ description: 'with `live`: the position of what was received last' }),
  token: t.string({ description: 'with `live`: the bearer, for clients that cannot send headers' }),
}

const onConflict = t.string({ description: 'columns of a unique key: a row with the same key is changed instead' })
const merge = t.oneOf(['true', 'ignore'], {
  default: 'true',
  description: '`ignore`: a row that is there stays as it is',
  refusal: 'merge must be true or ignore',
})
export const upsertQuery = { onConflict, merge }

const cursorPageOf = <T>(item: t.JsonType<T>) =>
  t.object({
    items: t.array(item),
    perPage: t.integer(),
    nextCursor: t.nullable(t.string()),
    totalItems: t.optional(t.integer()),
    totalPages: t.optional(t.integer()),
  })

const more = t.object({
  totalIsEstimate: t.optional(t.boolean()),
  facets: t.optional(t.record(t.array(t.object({ value: t.any(), count: t.integer() })))),
})

/** Not the whole row of its table, as `t.row` is. */
const part = t.record(t.any(), { description: 'what `fields` or `aggregate` asked for' })

export const rowOrPart = t.union(t.row, part)
export const rows = t.union(
  t.merged(t.pageOf(t.row), more),
  t.merged(cursorPageOf(t.row), more),
  t.merged(t.pageOf(part), more),
  t.merged(cursorPageOf(part), more),
)

const { filter, sort, fields, search } = listQuery
export const exportQuery = { filter, sort, fields, search }

export const importQuery = {
  ...upsertQuery,
  dry_run: t.boolean({ default: false, description: 'find out what would happen, and keep nothing' }),
}

export const imported = t.object({
  created: t.integer(),
  updated: t.integer(),
  skipped: t.integer(),
  dry_run: t.boolean(),
})

export const batch = t.object({
  operations: t.array(
    t.object({
      method: t.oneOf(['create', 'update', 'delete', 'upsert']),
      id: t.optional(t.union(t.string(), t.number())),
      body: t.optional(t.row),
      onConflict: t.optional(onConflict),
      merge: t.optional(t.union(t.boolean(), merge)),
    }),
    { maxItems: 1000 },
  ),
})

export const batchResults = t.array(t.object({ index: t.integer(), status: t.integer(), body: t.optional(t.row) }))
