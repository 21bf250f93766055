import { badRequest } from '../../../../../core/errors.ts'
import type { Column, Table } from '../../../../../db/schema/snapshot.ts'
import { configOf, documentOf, searchedText, type TextSearchConfig } from '../../../../../db/search/search-text.ts'
import { COMMA, Ident, join, ROW, type Sql, sql } from '../../../../../db/sql.ts'

const EXCERPT = '_highlight'
const BY_COLUMN = '_highlightResult'
/** Characters of a column that are highlighted. */
const SHOWN = sql`10240`
/** Characters in which matches are looked for: ts_headline takes a second for three megabytes. */
const LOOKED_AT = sql`100000`

type Highlighting = { config: TextSearchConfig; columns: readonly Column[]; words: Sql }

/**
 * The words of a query, joined by OR: each word of a phrase, none of an exclusion. With many phrases ts_headline of
 * PostgreSQL 15 takes seconds for a few lines of text, and minutes for a page.
 */
const wordsOf = (
  query: Sql,
): Sql => sql`(select coalesce(pg_catalog.string_agg(distinct svc_word.quoted[1], ' | '), '')::pg_catalog.tsquery
  from pg_catalog.regexp_matches(pg_catalog.querytree(${query}), '(''(?:[^'']|'''')+'')', 'g') as svc_word(quoted))`

/** The item keys `_highlight` and `_highlightResult`. */
export function highlightKeys(table: Table, given: Omit<Highlighting, 'words'> & { query: Sql }): Sql[] {
  const options: Highlighting = { ...given, words: wordsOf(given.query) }
  const taken = [EXCERPT, BY_COLUMN].find((name) => table.columns.has(name))
  if (taken !== undefined) throw badRequest(`highlight conflicts with column "${taken}"`)
  const columns = options.columns.map((column) => sql`(${columnHighlight(column, options)}) as ${column.ident}`)
  return [
    sql`(${excerpt(options)}) as ${new Ident(EXCERPT)}`,
    sql`(select pg_catalog.to_json(h.*) from (select ${join(columns, COMMA)}) as h) as ${new Ident(BY_COLUMN)}`,
  ]
}

/** The text is escaped first, so that every `<b>` in the result is a mark. */
const headline = (text: Sql, { config, words }: Highlighting, options: Sql): Sql =>
  sql`pg_catalog.ts_headline(${configOf(config)}, ${escaped(text)}, ${words}${options})`

/** From the beginning of a long text, unless only what follows has a match. */
function excerpt(options: Highlighting): Sql {
  const text = documentOf(options.columns, ROW)
  return sql`select case when ${hasMark(sql`v.value`)} or pg_catalog.length(${text}) operator(pg_catalog.<=) ${SHOWN}
      then v.value else ${headline(sql`pg_catalog.left(${text}, ${LOOKED_AT})`, options, sql``)} end
    from (select ${headline(sql`pg_catalog.left(${text}, ${SHOWN})`, options, sql``)} as value offset 0) as v`
}

const WHOLE = sql`, 'HighlightAll=true'`

function columnHighlight(column: Column, options: Highlighting): Sql {
  const text = sql`coalesce(${ROW}.${column.ident}::text, '')`
  const rest = headline(sql`coalesce(pg_catalog.left(${searchedText(column, ROW)}, ${LOOKED_AT}), '')`, options, WHOLE)
  return sql`select pg_catalog.json_build_object('value', v.value, 'matchLevel',
      case when ${hasMark(sql`v.value`)} or pg_catalog.length(${text}) operator(pg_catalog.>) ${SHOWN} and ${hasMark(rest)}
        then 'full' else 'none' end)
    from (select ${headline(sql`pg_catalog.left(${text}, ${SHOWN})`, options, WHOLE)} as value offset 0) as v`
}

const hasMark = (text: Sql): Sql => sql`pg_catalog.strpos(${text}, '<b>') operator(pg_catalog.>) 0`

const ENTITIES = [sql`'&', '&amp;'`, sql`'<', '&lt;'`, sql`'>', '&gt;'`, sql`'"', '&quot;'`, sql`'''', '&#39;'`]

const escaped = (text: Sql): Sql => ENTITIES.reduce((all, entity) => sql`pg_catalog.replace(${all}, ${entity})`, text)
