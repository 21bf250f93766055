import { isEmail, normaliseEmail } from '../../core/contact/email-address.ts'
import { normalisePhone } from '../../core/contact/phone.ts'
import { storableText } from '../../core/storable.ts'
import type { Credential } from './hashes.ts'

/** A user of a file, in our words. */
export type Person = {
  /** What the source knows the user by: the same at every run. */
  key: string
  /** Kept as the account's id; undefined: the source's id is none of ours. */
  id: string | undefined
  email: string | null
  isVerified: boolean
  /** Proven; an unproven number would sign its owner in. */
  phone: string | null
  credential: Credential | undefined
  identities: readonly { provider: string; subject: string }[]
  metadata: string
  appMetadata: string
  isDisabled: boolean
  isAnonymous: boolean
  createdAt: string | null
  /** What does not come along. */
  lost: readonly Loss[]
}

export type Loss = 'second factor' | 'address' | 'phone' | 'metadata' | 'user name'

export type UserFields = Readonly<Record<string, unknown>>

/** The first of the names that holds a text or a number. */
export function textIn(fields: UserFields, ...names: readonly string[]): string {
  for (const name of names) {
    const value = fields[name]
    if (typeof value === 'string' && value.trim() !== '') return value.trim()
    if (typeof value === 'number') return String(value)
  }
  return ''
}

/**
 * Of the first of the names that the record has, even where it holds nothing: a later name may speak of something else, so it
 * does not stand in.
 */
export function fieldIn(fields: UserFields, ...names: readonly string[]): unknown {
  const name = names.find((one) => Object.hasOwn(fields, one))
  return name === undefined ? undefined : fields[name]
}

/** `true`, and what CSV and other exports write for it. */
export const isTrue = (value: unknown): boolean =>
  value === true || value === 1 || value === 'true' || value === 't' || value === '1'

/** An object, or the JSON text of one. */
export function objectIn(fields: UserFields, ...names: readonly string[]): UserFields {
  for (const name of names) {
    const value = parsedIf(fields[name])
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as UserFields
  }
  return {}
}

export function listIn(fields: UserFields, name: string): readonly UserFields[] {
  const value = parsedIf(fields[name])
  return Array.isArray(value) ? value.filter((one): one is UserFields => typeof one === 'object' && one !== null) : []
}

function parsedIf(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value
  try {
    return JSON.parse(value)
  } catch {
    return undefined
  }
}

export const emailIn = (given: string): string | null => {
  const email = normaliseEmail(given)
  return isEmail(email) ? email : null
}

export function phoneIn(given: string): string | null {
  try {
    return given === '' ? null : normalisePhone(given)
  } catch {
    return null
  }
}

/** Milliseconds or seconds since 1970, or a date as text; null for anything else. */
export function momentIn(given: string): string | null {
  if (/^\d{1,8}$/.test(given)) return null
  const number = /^\d{9,14}$/.test(given) ? Number(given) : undefined
  const date = number === undefined ? new Date(given) : new Date(number < 1e11 ? number * 1000 : number)
  const year = given === '' || Number.isNaN(date.getTime()) ? 0 : date.getUTCFullYear()
  return year >= 1970 && year < 2200 ? date.toISOString() : null
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const keptId = (given: string): string | undefined => (UUID.test(given) ? given.toLowerCase() : undefined)

const MAX_METADATA = 16 * 1024
const MAX_DEPTH = 32

/** As JSON that the database takes; undefined for what is too large or too deep. */
export function metadataJson(given: UserFields): string | undefined {
  const text = jsonOf(given, 0)
  return text !== undefined && Buffer.byteLength(text) <= MAX_METADATA ? text : undefined
}

function jsonOf(value: unknown, depth: number): string | undefined {
  if (depth > MAX_DEPTH) return undefined
  if (typeof value === 'string') return JSON.stringify(storableText(value))
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const parts: string[] = []
  for (const [name, one] of Object.entries(value)) {
    const text = jsonOf(one, depth + 1)
    if (text === undefined) return undefined
    parts.push(Array.isArray(value) ? text : `${JSON.stringify(storableText(name))}:${text}`)
  }
  return Array.isArray(value) ? `[${parts.join()}]` : `{${parts.join()}}`
}

/** Of those that are there. */
export const present = (fields: Readonly<Record<string, string>>): UserFields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''))
