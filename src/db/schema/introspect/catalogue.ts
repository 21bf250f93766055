import type { Comparison } from '../snapshot.ts'

/** What the query of query.ts returns about the exposed schemas. */

export type PrivilegeBits = readonly [anon: number, authenticated: number]

export type CatalogTable = {
  oid: number
  schema: string
  name: string
  kind: 'r' | 'p' | 'v' | 'm' | 'f'
  comment: string | null
  rls: boolean
  privileges: PrivilegeBits
  /** pg_relation_is_updatable for views and foreign tables; null for what is always writable or never. */
  writable: number | null
  /** Bits as those of `writable`: what rules change in a way that returns no rows. */
  rules: number
  watched: boolean
  /** A write may run triggers other than ours, of the table or of its partitions and underlying tables. */
  userCode: boolean
  primaryKey: number[] | null
  columns: CatalogColumn[] | null
}

/** An array, not an object, to save space: a thousand wide tables have fifty thousand columns. */
export type CatalogColumn = [
  attnum: number,
  name: string,
  type: string,
  /** NOT NULL 1, identity ALWAYS 2, identity BY DEFAULT 4, generated 8. */
  flags: number,
  defaultExpression: string | null,
  comment: string | null,
  /** Null unless the column has grants of its own. */
  privileges: PrivilegeBits | null,
  /** Of a generated column. `reads`: of a virtual one, the columns in its expression. */
  generation: [definition: number, expression: string, isVirtual: boolean, reads: string[] | null] | null,
]

export type CatalogType = {
  /** `oid:typmod`, as columns name it. */
  key: string
  oid: number
  formatted: string
  schema: string
  name: string
  notNull: boolean
  baseOid: number
  baseSchema: string
  baseName: string
  baseKind: string
  baseCategory: string
  baseModifier: number
  readsBack: boolean
  /** Schema and name of each operator that is off the search path. */
  operators: Partial<Record<Comparison, [schema: string, name: string]>> | null
  /** Of an array: the base type of its elements. */
  element: { name: string; kind: string; category: string } | null
  labels: string[] | null
}

export type CatalogForeignKey = {
  table: number
  name: string
  columns: number[]
  refTable: number
  refSchema: string
  refName: string
  refColumns: number[]
  /** Names of refColumns, when the referenced table is not part of the snapshot. */
  foreignNames: string[] | null
  onUpdate: string
  onDelete: string
  /** A partition's copy of its parent's foreign key. */
  inherited: boolean
  /** FOREIGN KEY (…, PERIOD …): the periods of several rows together contain that of the referencing one. */
  overPeriod: boolean
}

export type CatalogFunction = {
  oid: number
  schema: string
  name: string
  comment: string | null
  /** The default is told of functions with VARIADIC alone. */
  arguments: [name: string, type: string, mode: string, defaultExpression: string | null][] | null
  defaults: number
  returnType: string
  /** Key of its type. */
  result: string
  returnsSet: boolean
  isVoid: boolean
  returnsRow: boolean
  rowOf: number | null
  volatility: 'i' | 's' | 'v'
  executable: readonly [anon: boolean, authenticated: boolean]
}

export type Catalog = {
  serverVersion: number
  callerIds: string[]
  extensions: { name: string; version: string; schema: string }[]
  types: CatalogType[]
  tables: CatalogTable[]
  foreignKeys: CatalogForeignKey[]
  checks: { table: number; name: string; definition: string | null }[]
  indexes: {
    table: number
    name: string
    isUnique: boolean
    isPrimary: boolean
    method: string
    /** See Table.uniqueKeys. */
    isUniqueKey: boolean
    /** 0 where the key is an expression. */
    columns: number[]
    expressions: (string | null)[] | null
    definition: string | null
  }[]
  policies: {
    table: number
    name: string
    command: string
    permissive: boolean
    roles: string[]
    callers: string[]
    usingExpr: string | null
    withCheckExpr: string | null
    /** Tables that its USING expression reads; of one for all commands, also WITH CHECK. */
    reads: number[]
  }[]
  functions: CatalogFunction[]
  /** Views that read tables under RLS with the rights of their owner. */
  leaks: { view: number; tables: string[] }[]
  /** Partitions and child tables that are not exposed, because only their parent has row level security. */
  unguarded: { parent: string; children: string[] }[]
}
