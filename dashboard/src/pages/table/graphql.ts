import type { Column, Schema, Table } from '../../api/schema.ts'
import { Digits, exactJson } from '../../parts/exact.ts'

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
/** Names that begin with two underscores are GraphQL's own. */
export const isGraphqlName = (name: string): boolean => NAME.test(name) && !name.startsWith('__')

/** The field of a table, as the server names it: with its schema where an earlier one has that name. Null where it has none. */
export function graphqlField({ schemas, tables }: Pick<Schema, 'schemas' | 'tables'>, table: Table): string | null {
  const fields = new Map<string, Table>()
  for (const schema of schemas)
    for (const one of tables.values()) {
      if (one.schema !== schema) continue
      const field = fields.has(one.name) ? `${schema}_${one.name}` : one.name
      if (!fields.has(field)) fields.set(field, one)
    }
  const [field] = [...fields].find(([, one]) => one === table) ?? []
  return field !== undefined && isGraphqlName(field) ? field : null
}

/** A column of an enum of which a label is no name has texts. */
function isEnum({ type, enumValues = [] }: Column): boolean {
  const isLabel = (label: string): boolean => isGraphqlName(label) && !/^(true|false|null)$/.test(label)
  return enumValues.length > 0 && !type.endsWith('[]') && enumValues.every(isLabel)
}

/** A value as it stands in a document; null for keys in JSON that are no names, and for what is no label of an enum. */
export function graphqlValue(column: Column | undefined, value: unknown): string | null {
  if (typeof value !== 'string' || !column || !isEnum(column)) return literal(value)
  return column.enumValues?.includes(value) ? value : null
}

export function graphqlObject(fields: readonly (readonly [name: string, value: string | null])[]): string | null {
  const isWhole = fields.every(([name, value]) => isGraphqlName(name) && value !== null)
  return isWhole ? `{${fields.map(([name, value]) => `${name}: ${value}`).join(', ')}}` : null
}

function literal(value: unknown): string | null {
  if (Array.isArray(value)) {
    const parts = value.map(literal)
    return parts.includes(null) ? null : `[${parts.join(', ')}]`
  }
  if (typeof value !== 'object' || value === null || value instanceof Digits) return exactJson(value)
  return graphqlObject(Object.entries(value).map(([name, part]) => [name, literal(part)] as const))
}
