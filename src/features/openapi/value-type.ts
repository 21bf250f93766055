import * as t from '../../core/json-type.ts'
import type { Column, ElementType, ValueType } from '../../db/schema/snapshot.ts'

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
    numeric: t.number({ format: 'decimal', description: 'with all its digits' }),
    json: t.any(),
    jsonb: t.any(),
    uuid: t.uuid(),
    timestamptz: t.time(),
    date: t.string({ format: 'date' }),
    geometry: t.record(t.any(), { description: 'GeoJSON' }),
    geography: t.record(t.any(), { description: 'GeoJSON' }),
    record: t.row,
  }),
)

/** PostgreSQL arrays may contain NULL. Further dimensions are not described because they are rare. */
const listOf = (item: t.JsonSchema): t.JsonSchema => t.array(t.nullable(item))

const named = (name: string): t.JsonSchema => byName.get(name) ?? t.string()

type Described = Pick<ValueType, 'type' | 'baseType' | 'typeKind' | 'isArray' | 'element' | 'enumValues' | 'isVector'>
/** The reference to an enum, by a value of its type. */
export type EnumRef = (value: Pick<Described, 'type' | 'enumValues'>) => t.JsonSchema

/** Arguments may be given as text wherever PostgreSQL reads one. */
export function valueType(value: Described, enumRef: EnumRef): t.JsonSchema {
  const { isArray, element, enumValues, isVector } = value
  if (isVector) return t.array(t.number())
  if (isArray) return listOf(enumValues ? enumRef(value) : element ? elementType(element) : t.string())
  return enumValues ? enumRef(value) : plainType(value)
}

const plainType = ({ typeKind, baseType }: ElementType): t.JsonSchema => (typeKind === 'c' ? t.row : named(baseType))

/** Elements that are arrays are of a domain over one; places on a sphere are text inside of arrays. */
function elementType(element: ElementType): t.JsonSchema {
  if (element.isArray) return t.any()
  return element.baseType === 'geography' ? t.string() : plainType(element)
}

export function columnType(column: Column, enumRef: EnumRef): t.JsonSchema {
  const type = valueType(column, enumRef)
  const shown = column.nullable ? t.nullable(type) : type
  return column.comment === undefined ? shown : { ...shown, description: column.comment }
}
