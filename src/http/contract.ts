import { badRequest } from '../core/errors.ts'
import type { Fields, JsonSchema, JsonType } from '../core/json-type.ts'
import { isUuid } from '../core/uuid.ts'

/**
 * Checks the path parameters of a request against the declared types. As in all checks of this file, the first error in
 * the order of the declaration is thrown.
 */
export function readParams(params: Record<string, string>, types: Fields): void {
  for (const name of Object.keys(types)) params[name] = checkString(types[name] ?? {}, name, params[name] ?? '')
}

/** Checks booleans and enums only; handlers parse all other query parameters. */
export function queryCheck(types: Fields): ((query: Readonly<Record<string, string>>) => void) | undefined {
  const spelled = Object.entries(types).filter(([, type]) => type.type === 'boolean' || type.enum)
  if (spelled.length === 0) return undefined
  return (query) => {
    for (const [name, type] of spelled) {
      const value = query[name]
      if (value === undefined) continue
      if (type.type === 'boolean' && value !== 'true' && value !== 'false') {
        throw badRequest(type.refusal ?? `${name} parameter must be a boolean`)
      }
      if (type.enum && !type.enum.includes(value)) throw refused(type, name, `must be one of: ${type.enum.join(', ')}`)
    }
  }
}

/** Returns a new object with the declared fields of a body; unknown fields are ignored. */
export function readBody<T>(type: JsonType<T>, input: unknown): T {
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw badRequest('invalid JSON body', 'invalid_body')
  return (type.properties === undefined ? input : readObject(type, input)) as T
}

function readObject(type: JsonSchema, input: object, prefix = ''): object {
  const read: Record<string, unknown> = {}
  for (const [key, inner] of Object.entries(type.properties ?? {})) {
    const name = prefix + key
    const value = Object.hasOwn(input, key) ? (input as Record<string, unknown>)[key] : undefined
    if (value === null && isNullable(inner)) read[key] = null
    else if (value === undefined || value === null) {
      if (type.required?.includes(key)) throw badRequest(`${name} is required`)
    } else {
      if (value === '' && inner.type === 'string' && type.required?.includes(key))
        throw badRequest(`${name} is required`)
      read[key] = checkValue(inner, name, value)
    }
  }
  return read
}

const isNullable = ({ anyOf }: JsonSchema): boolean => anyOf?.some(({ type }) => type === 'null') ?? false

const refused = (type: JsonSchema, name: string, why: string) => badRequest(type.refusal ?? `${name} ${why}`)

function checkValue(type: JsonSchema, name: string, value: unknown): unknown {
  if (type.anyOf) return checkAny(type, name, value)
  switch (type.type) {
    case 'string':
      return checkString(type, name, value)
    case 'boolean':
      if (typeof value !== 'boolean') throw refused(type, name, 'must be a boolean')
      return value
    case 'integer':
    case 'number':
      return checkNumber(type, name, value)
    case 'array':
      return checkArray(type, name, value)
    case 'object':
      if (typeof value !== 'object' || value === null || Array.isArray(value)) {
        throw refused(type, name, 'must be an object')
      }
      return type.properties === undefined ? value : readObject(type, value, `${name}.`)
    default:
      return value
  }
}

function checkAny(type: JsonSchema, name: string, value: unknown): unknown {
  const choices = type.anyOf?.filter(({ type: kind }) => kind !== 'null') ?? []
  const [only] = choices
  if (only && choices.length === 1) return checkValue(only, name, value)
  for (const choice of choices) {
    try {
      return checkValue(choice, name, value)
    } catch {
      // try the next choice
    }
  }
  throw refused(type, name, 'has a wrong type')
}

function checkString(type: JsonSchema, name: string, value: unknown): string {
  if (typeof value !== 'string') throw refused(type, name, 'must be a string')
  if (type.enum && !type.enum.includes(value)) throw refused(type, name, `must be one of: ${type.enum.join(', ')}`)
  if (type.format === 'uuid') {
    if (!isUuid(value)) throw badRequest(type.refusal ?? `invalid ${name} format`)
    // PostgreSQL prints UUIDs in lower case, so that texts can be compared.
    return value.toLowerCase()
  }
  // A password may contain NUL, because it is only hashed.
  if (type.format !== 'password' && value.includes('\0')) throw badRequest(`${name} must not contain NUL`)
  if (type.maxLength !== undefined && value.length > type.maxLength) {
    throw refused(type, name, `must be at most ${type.maxLength} characters`)
  }
  return value
}

function checkNumber(type: JsonSchema, name: string, value: unknown): number {
  const isInteger = type.type === 'integer'
  if (typeof value !== 'number' || (isInteger && !Number.isSafeInteger(value))) {
    throw refused(type, name, isInteger ? 'must be an integer' : 'must be a number')
  }
  if (type.minimum !== undefined && value < type.minimum) throw refused(type, name, `must be at least ${type.minimum}`)
  if (type.maximum !== undefined && value > type.maximum) throw refused(type, name, `must be at most ${type.maximum}`)
  return value
}

function checkArray(type: JsonSchema, name: string, value: unknown): unknown[] {
  const { items = {}, maxItems } = type
  const plural =
    items.type === 'string' && items.enum === undefined ? 'must be an array of strings' : 'must be an array'
  if (!Array.isArray(value)) throw refused(type, name, plural)
  if (maxItems !== undefined && value.length > maxItems)
    throw refused(type, name, `must have at most ${maxItems} items`)
  return value.map((item, i) => {
    if (items.type === 'string' && typeof item !== 'string') throw refused(type, name, plural)
    return checkValue(items, `${name}[${i}]`, item)
  })
}
