import type { Column, Schema, Table } from '../schema/snapshot.ts'
import { catalogueExpression, Ident, join, nameLiteral, type Sql, sql } from '../sql.ts'

/** Characters searched of each text column, so that one large row does not fail the search. */
const MAX_CHARS = sql`200000`

/**
 * The searched text of a column. An index serves a search only if both use the same expression, so it is defined once;
 * without `row` for the definition of an index. In a search PostgreSQL puts the expression in the place of a virtual column.
 */
export const searchedText = ({ ident, generation }: Column, row?: Ident): Sql => {
  const plain = row ? sql`${row}.${ident}` : sql`${ident}`
  const value = !row && generation?.isVirtual ? catalogueExpression(`(${generation.expression})`) : plain
  return sql`pg_catalog.left(${value}::text, ${MAX_CHARS})`
}

/** All text columns as one text; NULL counts as ''. */
export const documentOf = (columns: readonly Column[], row?: Ident): Sql =>
  join(
    columns.map((column) => sql`coalesce(${searchedText(column, row)}, '')`),
    sql` operator(pg_catalog.||) ' ' operator(pg_catalog.||) `,
  )

/** A text search configuration as a constant: a parameter would hide the index. */
export type TextSearchConfig = { readonly schema: string; readonly name: string }

export const configOf = ({ schema, name }: TextSearchConfig): Sql =>
  sql`${nameLiteral(new Ident(schema, name))}::pg_catalog.regconfig`

export const vectorOf = (config: TextSearchConfig, columns: readonly Column[], row?: Ident): Sql =>
  sql`svc.search_vector(${configOf(config)}, ${documentOf(columns, row)})`

/** A name of pg_trgm, with the schema it is installed in. */
export const trigram = (schema: Schema, name: string): Ident => new Ident(schema.pgTrgm?.schema ?? 'public', name)

export const textColumns = (columns: Iterable<Column>): Column[] => [...columns].filter(({ isText }) => isText)

export const fullTextKey = (config: TextSearchConfig, table: Table): Sql =>
  vectorOf(config, textColumns(table.columns.values()))

export const trigramKeys = (schema: Schema, table: Table): Sql =>
  join(
    textColumns(table.columns.values()).map(
      (column) => sql`(${searchedText(column)}) ${trigram(schema, 'gin_trgm_ops')}`,
    ),
  )

/** Whether the table has an index of this key, compared without what PostgreSQL adds or omits in a definition. */
export function hasGinIndex(table: Pick<Table, 'indexes'>, key: Sql): boolean {
  const normalKey = normalized(key.text)
  return table.indexes.some(
    ({ method, definition }) =>
      method === 'gin' && !definition.includes(' WHERE ') && normalized(definition).includes(normalKey),
  )
}

const normalized = (text: string): string =>
  text
    .toLowerCase()
    .replace(/operator\(pg_catalog\.\|\|\)/g, '||')
    .replace(/("[^"]*"|\w+)\."?gin_trgm_ops"?/g, 'gin_trgm_ops')
    .replace(/::(pg_catalog\.)?(text|regconfig)|pg_catalog"?\.|[\s"()]/g, '')
    .replace(/'[^'.]*\./g, "'")
