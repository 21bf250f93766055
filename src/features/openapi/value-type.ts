import * as t from '../../core/json-type.ts'
import type { Column, Parameter } from '../../db/schema/snapshot.ts'

/** PostgreSQL's types as JSON shows them (docs/api.md, "Types"), by pg_type.typname. What is not named is text. */
const byName: ReadonlyMap<string, t.JsonSchema> = new Map(
  Object.entries({
    bool: t.boolean(),
    int2: t.integer({ format: 'int32' }),
    int4: t.integer({ format: 'int32' }),
    int8: t.integer({ format: 'int64', description: 'with all its digits' }),
    oid: t.integer({ format: 'int64' }),
    float4: t.number(),
    float8: t.number(),
    numeric: t.number({ description: 'with all its digits' }),
    json: t.any(),
    jsonb: t.any(),
    uuid: t.uuid(),
    timestamptz: t.time(),
    date: t.string({ format: 'date' }),
    geometry: t.record(t.any(), { description: 'GeoJSON' }),
    geography: t.record(t.any(), { description: 'GeoJSON' }),
    vector: t.array(t.number()),
    halfvec: t.array(t.number()),
    record: t.row,
  }),
)

/** PostgreSQL arrays may contain NULL. Further dimensions are not described because they are rare. */
const listOf = (item: t.JsonSchema): t.JsonSchema => t.array(t.nullable(item))

const named = (name: string): t.JsonSchema => {
  if (!name.startsWith('_')) return byName.get(name) ?? t.string()
  return listOf(byName.get(name.slice(1)) ?? t.string())
}

export function columnType(column: Column, enumRef: (column: Column) => t.JsonSchema): t.JsonSchema {
  const { isArray, enumValues, typeKind, baseType, nullable, comment, isVector } = column
  let type: t.JsonSchema
  if (isVector) type = t.array(t.number())
  else if (isArray) type = listOf(enumValues ? enumRef(column) : named(baseType.replace(/^_/, '')))
  else if (enumValues) type = enumRef(column)
  else type = typeKind === 'c' ? t.row : named(baseType)
  const shown = nullable ? t.nullable(type) : type
  return comment === undefined ? shown : { ...shown, description: comment }
}

/** Arguments may be given as text wherever PostgreSQL reads one. */
export const parameterType = ({ baseType, isArray }: Parameter): t.JsonSchema =>
  isArray ? listOf(named(baseType.replace(/^_/, ''))) : named(baseType)

/** Names written by format_type, with their pg_type.typname. */
const formatted: ReadonlyMap<string, string> = new Map(
  Object.entries({
    boolean: 'bool',
    smallint: 'int2',
    integer: 'int4',
    bigint: 'int8',
    real: 'float4',
    'double precision': 'float8',
    'timestamp with time zone': 'timestamptz',
  }),
)

export function resultType(text: string): t.JsonSchema {
  const bare = text.replace(/^SETOF /, '')
  const name = bare.replace(/\[\]$/, '')
  const type = named(formatted.get(name) ?? name)
  return t.nullable(bare.endsWith('[]') ? listOf(type) : type)
}
