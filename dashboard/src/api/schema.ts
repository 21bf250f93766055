import { useMemo } from 'react'
import { changed, useApi } from './hooks.ts'

export type Column = {
  name: string
  position: number
  type: string
  nullable: boolean
  default?: string
  comment?: string
  isPrimaryKey: boolean
  isGeometry: boolean
  isGeography: boolean
  isVector: boolean
  jsonType: string
  enumValues?: string[]
  isGenerated: boolean
  isIdentity: boolean
}

export type ForeignKey = {
  constraintName: string
  columns: string[]
  referencedSchema: string
  referencedTable: string
  referencedColumns: string[]
  onUpdate?: string
  onDelete?: string
}

export type Relationship = {
  name: string
  type: 'many-to-one' | 'one-to-many'
  fromSchema: string
  fromTable: string
  fromColumns: string[]
  toSchema: string
  toTable: string
  toColumns: string[]
  fieldName: string
}

export type Policy = {
  name: string
  command: string
  permissive: boolean
  roles: string[]
  usingExpr?: string
  withCheckExpr?: string
}

export type Table = {
  schema: string
  name: string
  kind: 'table' | 'view' | 'materialized_view' | 'partitioned_table' | 'foreign_table'
  comment?: string
  columns: Column[]
  primaryKey: string[]
  foreignKeys?: ForeignKey[]
  checkConstraints?: { name: string; definition: string }[]
  indexes?: {
    name: string
    isUnique: boolean
    isPrimary: boolean
    method: string
    columns: string[]
    definition: string
  }[]
  relationships?: Relationship[]
  rlsPolicies?: Policy[]
  rlsEnabled: boolean
}

export type Answer = {
  tables: Record<string, Table>
  functions: Record<
    string,
    { schema: string; name: string; parameters: { name: string; type: string }[]; returnType: string }
  >
  schemas: string[]
  hasPostGIS: boolean
  hasPgVector: boolean
}

export type Schema = {
  /** By the name that the address and the API use. */
  tables: ReadonlyMap<string, Table>
  functions: Answer['functions']
  schemas: string[]
  hasPostGIS: boolean
}

/** `schema.name` where it is not in the first schema. */
export const tableName = (table: { schema: string; name: string }, first: string | undefined): string =>
  table.schema === first ? table.name : `${table.schema}.${table.name}`

export function useSchema(): { schema: Schema | undefined; error: unknown; isLoading: boolean } {
  const { data, error, isLoading } = useApi<Answer>('/api/schema', {}, { fresh: 30_000 })
  const schema = useMemo(() => {
    if (!data) return undefined
    const sorted = Object.values(data.tables).sort((a, b) =>
      a.schema === b.schema ? (a.name < b.name ? -1 : 1) : a.schema < b.schema ? -1 : 1,
    )
    return { ...data, tables: new Map(sorted.map((table) => [tableName(table, data.schemas[0]), table])) }
  }, [data])
  return { schema, error, isLoading }
}

/** After DDL. */
export const schemaChanged = (): Promise<void> =>
  changed('/api/schema', '/api/admin/rls', '/api/admin/schema', '/api/openapi.json')

export const quoteName = (name: string): string =>
  /^[a-z_][a-z0-9_$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`
export const quoteText = (value: string): string => `'${value.replaceAll("'", "''")}'`
export const fullName = ({ schema, name }: { schema: string; name: string }): string =>
  `${quoteName(schema)}.${quoteName(name)}`
