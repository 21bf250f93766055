import { badRequest } from '../core/errors.ts'

type Fields = Readonly<Record<string, unknown>>

/** The body as an object; arrays and scalars are refused. */
export function object(input: unknown): Fields {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) throw badRequest('invalid JSON body')
  return input as Fields
}

const own = (fields: Fields, name: string): unknown => (Object.hasOwn(fields, name) ? fields[name] : undefined)

export function optionalString(fields: Fields, name: string): string | undefined {
  const value = own(fields, name)
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string') throw badRequest(`${name} must be a string`)
  if (value.includes('\0')) throw badRequest(`${name} must not contain NUL`)
  return value
}

export function requiredString(fields: Fields, name: string): string {
  const value = optionalString(fields, name)
  if (value === undefined || value === '') throw badRequest(`${name} is required`)
  return value
}

export function optionalBoolean(fields: Fields, name: string): boolean | undefined {
  const value = own(fields, name)
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'boolean') throw badRequest(`${name} must be a boolean`)
  return value
}

export function optionalInteger(fields: Fields, name: string): number | undefined {
  const value = own(fields, name)
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw badRequest(`${name} must be an integer`)
  return value
}

export function optionalStrings(fields: Fields, name: string): string[] | undefined {
  const value = own(fields, name)
  if (value === undefined || value === null) return undefined
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string' && !item.includes('\0'))) {
    throw badRequest(`${name} must be an array of strings`)
  }
  return value as string[]
}

export function optionalObject(fields: Fields, name: string): Fields | undefined {
  const value = own(fields, name)
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'object' || Array.isArray(value)) throw badRequest(`${name} must be an object`)
  return value as Fields
}

/** Query booleans are `true` or `false`, nothing else. */
export function queryBoolean(query: Readonly<Record<string, string>>, name: string): boolean | undefined {
  const value = query[name]
  if (value === undefined) return undefined
  if (value !== 'true' && value !== 'false') throw badRequest(`${name} parameter must be a boolean`)
  return value === 'true'
}
