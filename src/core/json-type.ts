/**
 * JSON Schema (draft 2020-12) as plain data that carries the TypeScript type it describes. Routes declare their requests
 * and responses with it; validation, OpenAPI and the tests read the same value.
 * See docs/decisions/http-server.md.
 */
export type JsonType<T = unknown> = JsonSchema & { readonly [carried]?: T }
/** The TypeScript type behind a JsonType. */
export type TypeOf<J> = J extends JsonType<infer T> ? T : never

declare const carried: unique symbol

export type JsonSchema = {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly format?: string
  readonly enum?: readonly (string | number | boolean | null)[]
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly default?: unknown
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: JsonSchema | boolean
  readonly anyOf?: readonly JsonSchema[]
  /** The error message for a value of another type, where it differs from the usual one. */
  readonly refusal?: string
}

type Notes = Pick<
  JsonSchema,
  'description' | 'format' | 'default' | 'minLength' | 'maxLength' | 'minimum' | 'maximum' | 'maxItems' | 'refusal'
>

const OPTIONAL = Symbol('optional')
type Optional<T> = JsonType<T> & { readonly [OPTIONAL]: true }

export const string = (notes: Notes = {}): JsonType<string> => ({ type: 'string', ...notes })
export const boolean = (notes: Notes = {}): JsonType<boolean> => ({ type: 'boolean', ...notes })
export const integer = (notes: Notes = {}): JsonType<number> => ({ type: 'integer', ...notes })
export const number = (notes: Notes = {}): JsonType<number> => ({ type: 'number', ...notes })
/** Any JSON value. */
export const any = (notes: Notes = {}): JsonType => ({ ...notes })

export const uuid = (notes: Notes = {}): JsonType<string> => string({ format: 'uuid', ...notes })
export const time = (notes: Notes = {}): JsonType<string> => string({ format: 'date-time', ...notes })
/** A UUID path parameter; any other value is `invalid <thing> id format`. */
export const id = (thing: string): JsonType<string> => uuid({ refusal: `invalid ${thing} id format` })

export const oneOf = <const T extends string>(choices: readonly T[], notes: Notes = {}): JsonType<T> => ({
  type: 'string',
  enum: choices,
  ...notes,
})

export const array = <T>(items: JsonType<T>, notes: Notes = {}): JsonType<T[]> => ({ type: 'array', items, ...notes })

/** An object with arbitrary keys. */
export const record = <T>(values: JsonType<T>, notes: Notes = {}): JsonType<Record<string, T>> => ({
  type: 'object',
  additionalProperties: values,
  ...notes,
})

export const nullable = <T>(type: JsonType<T>): JsonType<T | null> => ({ anyOf: [type, { type: 'null' }] })
export const union = <J extends readonly JsonType[]>(...types: J): JsonType<TypeOf<J[number]>> => ({ anyOf: types })

/** A property that may be missing; in requests null counts as missing. */
export const optional = <T>(type: JsonType<T>): Optional<T> => ({ ...type, [OPTIONAL]: true })

export type Fields = Readonly<Record<string, JsonType>>
type OptionalKeys<F extends Fields> = { [K in keyof F]: F[K] extends Optional<unknown> ? K : never }[keyof F]
export type ObjectOf<F extends Fields> = { [K in Exclude<keyof F, OptionalKeys<F>>]: TypeOf<F[K]> } & {
  [K in OptionalKeys<F>]?: TypeOf<F[K]>
}

export const object = <F extends Fields>(properties: F, notes: Notes = {}): JsonType<ObjectOf<F>> => {
  const required = Object.keys(properties).filter((name) => !(properties[name] && OPTIONAL in properties[name]))
  return { type: 'object', properties, ...(required.length > 0 && { required }), ...notes }
}

/** A response that may have undeclared fields. Tests check all other responses for exactly the declared ones. */
export const open = <T>(type: JsonType<T>): JsonType<T> => ({ ...type, additionalProperties: true })

/** A row, or another object whose keys come from the database. */
export const row = record(any())

/** The fields of several objects as one object. */
export const merged = <A, B>(a: JsonType<A>, b: JsonType<B>): JsonType<A & B> => ({
  type: 'object',
  properties: { ...a.properties, ...b.properties },
  required: [...(a.required ?? []), ...(b.required ?? [])],
})

/** `{items, page, perPage, totalItems, totalPages}` */
export const pageOf = <T>(item: JsonType<T>) =>
  object({ items: array(item), page: integer(), perPage: integer(), totalItems: integer(), totalPages: integer() })

/** The body of every failure. The codes are not an enum, because newer servers have more of them. */
export const failure = object({
  code: integer({ description: 'the HTTP status' }),
  error: string({ description: 'the machine-readable code, listed in docs/errors.md' }),
  message: string(),
  data: optional(record(any(), { description: 'details by constraint or field' })),
  doc_url: optional(string()),
  conflicts: optional(array(any(), { description: 'of an undo: rows that cannot be put back' })),
  transactions: optional(array(string(), { description: 'of an undo: those that carry the request id' })),
})
