import {
  GraphQLBoolean,
  GraphQLError,
  GraphQLFloat,
  GraphQLInt,
  GraphQLScalarType,
  GraphQLString,
  Kind,
  type ValueNode,
} from 'graphql'
import type { Column } from '../../../db/schema/snapshot.ts'
import { exactText, TAKES_EXACT_NUMBERS } from './exact-numbers.ts'

/**
 * Values of these types stay text for PostgreSQL, so that no digit is lost. Only input is coerced; output is JSON made by
 * PostgreSQL.
 */
const text = (name: string, description: string, fromNumber?: (value: number) => string): GraphQLScalarType<string> =>
  new GraphQLScalarType({
    name,
    description,
    parseValue: (value) => {
      if (typeof value === 'string') return value
      if (typeof value === 'number' && fromNumber) return fromNumber(value)
      throw new GraphQLError(`${name} cannot represent this value`)
    },
    parseLiteral: (node) => {
      if (node.kind === Kind.STRING) return node.value
      if (fromNumber && (node.kind === Kind.INT || node.kind === Kind.FLOAT)) return node.value
      throw new GraphQLError(`${name} cannot represent this value`, { nodes: node })
    },
  })

/** Refuses JSON numbers that a double, into which they were parsed, does not hold exactly. */
function exact(name: string, isExact: (value: number) => boolean): (value: number) => string {
  return (value) => {
    if (isExact(value)) return String(value)
    throw new GraphQLError(`${name} cannot be read exactly from a JSON number of this size: send it as a string`)
  }
}

const MAX_DIGITS = 15
const digitsOf = (value: number): number =>
  String(value).replace(/e.*$/, '').replace(/\D/g, '').replace(/^0+/, '').length

const Big = text('BigInt', 'A whole number of 64 bits.', exact('BigInt', Number.isSafeInteger))
const Numeric = text(
  'Numeric',
  'A decimal number with all its digits.',
  exact('Numeric', (value) => Number.isFinite(value) && digitsOf(value) <= MAX_DIGITS),
)
const Uuid = text('UUID', 'A UUID.')
const Timestamptz = text('Timestamptz', 'A moment, as RFC 3339 writes it.')
const DateOnly = text('Date', 'A date, YYYY-MM-DD.')
const Bytea = text('Bytea', 'Bytes as hexadecimal text after \\x.')

/** A JSON value as text. */
export class Json {
  readonly text: string
  constructor(value: string) {
    this.text = value
  }
}

const json = (name: string, description: string): GraphQLScalarType<Json> =>
  new GraphQLScalarType({
    name,
    description,
    extensions: TAKES_EXACT_NUMBERS,
    parseValue: (value) => new Json(exactText(value)),
    parseLiteral: (node, variables) => new Json(literalText(node, variables ?? {})),
  })

export const JsonScalar = json('JSON', 'Any JSON value.')
const Geometry = json('Geometry', 'A GeoJSON geometry.')
const Vector = json('Vector', 'An array of numbers.')

/** A literal as JSON, with its numbers as written. */
function literalText(node: ValueNode, variables: Readonly<Record<string, unknown>>): string {
  switch (node.kind) {
    case Kind.INT:
    case Kind.FLOAT:
      return node.value
    case Kind.STRING:
    case Kind.ENUM:
      return JSON.stringify(node.value)
    case Kind.BOOLEAN:
      return String(node.value)
    case Kind.NULL:
      return 'null'
    case Kind.LIST:
      return `[${node.values.map((value) => literalText(value, variables)).join(',')}]`
    case Kind.OBJECT: {
      const fields = node.fields.map(
        ({ name, value }) => `${JSON.stringify(name.value)}:${literalText(value, variables)}`,
      )
      return `{${fields.join(',')}}`
    }
    case Kind.VARIABLE: {
      const value = variables[node.name.value]
      return value instanceof Json ? value.text : (JSON.stringify(value) ?? 'null')
    }
  }
}

/** A Map, because people choose the names of types. */
const BY_BASE_TYPE: ReadonlyMap<string, GraphQLScalarType> = new Map(
  Object.entries({
    bool: GraphQLBoolean,
    int2: GraphQLInt,
    int4: GraphQLInt,
    int8: Big,
    oid: Big,
    float4: GraphQLFloat,
    float8: GraphQLFloat,
    numeric: Numeric,
    uuid: Uuid,
    timestamptz: Timestamptz,
    date: DateOnly,
    json: JsonScalar,
    jsonb: JsonScalar,
    bytea: Bytea,
  }),
)

/** The scalar of a column's type, or of the elements of its arrays. */
export function scalarOf(column: Column): GraphQLScalarType {
  if (column.isGeometry || column.isGeography) return Geometry
  if (column.isVector) return Vector
  // Elements that are arrays are of a domain over one.
  const { typeKind, baseType, isArray } = column.element ?? column
  if (typeKind === 'c' || isArray) return JsonScalar
  return BY_BASE_TYPE.get(baseType) ?? GraphQLString
}
