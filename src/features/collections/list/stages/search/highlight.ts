import { badRequest } from '../../../../../core/errors.ts'
import type { Column, Table } from '../../../../../db/schema/snapshot.ts'
import { configOf, documentOf, searchedText, type TextSearchConfig } from '../../../../../db/search/search-text.ts'
import { COMMA, Ident, join, ROW, type Sql, sql } from '../../../../../db/sql.ts'

const EXCERPT = '_highlight'
const BY_COLUMN = '_highlightResult'
/** Characters of a column that are shown. */
const SHOWN = sql`10240`

type Asked = { config: TextSearchConfig; columns: readonly Column[]; words: Sql }

/**
 * The words of a query, any of which is marked: of phrases each one, of exclusions none. For a query of many phrases
 * ts_headline of PostgreSQL 15 takes seconds over a few lines of text, and minutes over a page.
 */
const wordsOf = (
  query: Sql,
): Sql => sql`(select coalesce(pg_catalog.string_agg(distinct svc_word.quoted[1], ' | '), '')::pg_catalog.tsquery
  from pg_catalog.regexp_matches(pg_catalog.querytree(${query}), '(''(?:[^'']|'''')+'')', 'g') as svc_word(quoted))`

/** The excerpt and the columns of an item with their matches marked. */
export function highlightKeys(table: Table, given: Omit<Asked, 'words'> & { query: Sql }): Sql[] {
  const asked: Asked = { ...given, words: wordsOf(given.query) }
  const taken = [EXCERPT, BY_COLUMN].find((name) => table.columns.has(name))
  if (taken !== undefined) throw badRequest(`highlight conflicts with column "${taken}"`)
  const columns = asked.columns.map((column) => sql`(${columnHighlight(column, asked)}) as ${column.ident}`)
  return [
    sql`(${excerpt(asked)}) as ${new Ident(EXCERPT)}`,
    sql`(select pg_catalog.to_json(h.*) from (select ${join(columns, COMMA)}) as h) as ${new Ident(BY_COLUMN)}`,
  ]
}

/** The source is escaped before it is marked, so that every `<b>` in the result is a mark. */
const headline = (text: Sql, { config, words }: Asked, options: Sql): Sql =>
  sql`pg_catalog.ts_headline(${configOf(config)}, ${escaped(text)}, ${words}${options})`

/** Of a long text the beginning, unless only the rest of it has a match. */
function excerpt(asked: Asked): Sql {
  const text = documentOf(asked.columns, ROW)
  return sql`select case when ${hasMark(sql`v.value`)} or pg_catalog.length(${text}) operator(pg_catalog.<=) ${SHOWN}
      then v.value else ${headline(text, asked, sql``)} end
    from (select ${headline(sql`pg_catalog.left(${text}, ${SHOWN})`, asked, sql``)} as value offset 0) as v`
}

const WHOLE = sql`, 'HighlightAll=true'`

function columnHighlight(column: Column, asked: Asked): Sql {
  const text = sql`coalesce(${ROW}.${column.ident}::text, '')`
  const rest = headline(sql`coalesce(${searchedText(column, ROW)}, '')`, asked, WHOLE)
  return sql`select pg_catalog.json_build_object('value', v.value, 'matchLevel',
      case when ${hasMark(sql`v.value`)} or pg_catalog.length(${text}) operator(pg_catalog.>) ${SHOWN} and ${hasMark(rest)}
        then 'full' else 'none' end)
    from (select ${headline(sql`pg_catalog.left(${text}, ${SHOWN})`, asked, WHOLE)} as value offset 0) as v`
}

const hasMark = (text: Sql): Sql => sql`pg_catalog.strpos(${text}, '<b>') operator(pg_catalog.>) 0`

const ENTITIES = [sql`'&', '&amp;'`, sql`'<', '&lt;'`, sql`'>', '&gt;'`, sql`'"', '&quot;'`, sql`'''', '&#39;'`]

const escaped = (text: Sql): Sql => ENTITIES.reduce((all, entity) => sql`pg_catalog.replace(${all}, ${entity})`, text)
