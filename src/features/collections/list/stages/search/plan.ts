import { badRequest } from '../../../../../core/errors.ts'
import type { TableView } from '../../../../../db/rows/table-view.ts'
import type { Column } from '../../../../../db/schema/snapshot.ts'
import { columnsFor } from '../../../../../db/schema/viewer.ts'
import { hidesRows, isReadByCtid } from '../../../../../db/search/candidates.ts'
import {
  configOf,
  fullTextKey,
  hasGinIndex,
  searchedText,
  textColumns,
  trigram,
  trigramKeys,
  vectorOf,
} from '../../../../../db/search/search-text.ts'
import { Ident, join, OR, ROW, type Sql, sql } from '../../../../../db/sql.ts'
import type { ListDeps, Stage } from '../stage.ts'
import { highlightKeys } from './highlight.ts'
import type { FuzzyQuery, SearchQuery } from './parse.ts'

/** The text columns that the caller may read. */
function searchedColumns({ table, viewer }: TableView): Column[] {
  const columns = textColumns(columnsFor(table, viewer.role))
  if (columns.length === 0) throw badRequest('search not supported: table has no text columns', 'invalid_search')
  return columns
}

export function planSearch(search: SearchQuery, target: TableView, listDeps: ListDeps): Stage {
  const { textSearchConfig: config } = listDeps
  const columns = searchedColumns(target)
  const vector = vectorOf(config, columns, ROW)
  // A subselect is evaluated once per execution, even in a generic plan.
  const tsQuery = (term: Sql): Sql => sql`(select pg_catalog.websearch_to_tsquery(${configOf(config)}, ${term}::text))`
  const query = tsQuery(sql`${search.term}`)
  const contains = (what: Sql): Sql => sql`${vector} operator(pg_catalog.@@) ${what}`
  const rank = sql`pg_catalog.ts_rank(${vector}, ${query})`
  const keys = search.highlight ? highlightKeys(target.table, { config, columns, query }) : []
  const candidates = candidatesFor(search, columns, target, listDeps)
  const base: Stage = { order: [sql`${ROW}.svc_rank desc`], keys, ...(candidates && { candidates }) }
  if (!search.fuzzy) return { ...base, conditions: [contains(query)], computed: [sql`${rank} as svc_rank`] }

  const { words, excluded, threshold } = search.fuzzy
  const best = bestSimilarity(columns, words, target)
  return {
    ...base,
    conditions: [
      sql`(${contains(query)} or ${best} operator(pg_catalog.>) ${threshold}::pg_catalog.float4)`,
      ...(excluded ? [sql`not (${contains(tsQuery(sql`${excluded}`))})`] : []),
    ],
    computed: [sql`${rank} operator(pg_catalog.+) ${best} as svc_rank`],
  }
}

function bestSimilarity(columns: readonly Column[], words: FuzzyQuery['words'], { schema }: TableView): Sql {
  const similarity = trigram(schema, 'word_similarity')
  const each = columns.map((column) => sql`coalesce(${similarity}(${words}::text, ${searchedText(column, ROW)}), 0)`)
  return sql`greatest(${join(each, sql`, `)})`
}

/**
 * For the cases in which PostgreSQL does not use an existing index: under a policy, and for similarity, whose operators
 * read the threshold from a setting. Indexes cover all text columns, so the caller must be allowed to read all of them.
 */
function candidatesFor(
  { term, fuzzy }: SearchQuery,
  columns: readonly Column[],
  { schema, table, viewer }: TableView,
  { candidates, textSearchConfig: config }: ListDeps,
): Sql | undefined {
  const isWhole = columns.length === textColumns(table.columns.values()).length
  // An index has the rows of now.
  if (table.rowsThen || !isWhole || !isReadByCtid(table, viewer.role)) return undefined
  if (!hasGinIndex(table, fullTextKey(config, table))) return undefined
  const found = sql`${vectorOf(config, columns, ROW)}
    operator(pg_catalog.@@) pg_catalog.websearch_to_tsquery(${configOf(config)}, $1[1])`
  if (!fuzzy) return hidesRows(table, viewer.role) ? candidates.of(table, found, [sql`${term}`]) : undefined
  if (!hasGinIndex(table, trigramKeys(schema, table))) return undefined
  const isLike = sql`operator(${new Ident(schema.pgTrgm?.schema ?? 'public')}.<%)`
  const similar = columns.map((column) => sql`$1[2] ${isLike} ${searchedText(column, ROW)}`)
  const either = join([found, ...similar], OR)
  return candidates.of(table, either, [sql`${term}`, sql`${fuzzy.words}`], sql`${fuzzy.threshold}`)
}
