import type { Ask } from './checks.ts'
import { refuse } from './errors.ts'
import { sortedTables, tableList } from './grants.ts'

export type Fields = Readonly<Record<string, string>>

const asked = (fields: Fields, tables: readonly string[]): Ask => ({
  responseType: fields['response_type'] ?? '',
  redirectUri: fields['redirect_uri'] ?? '',
  scope: fields['scope'] ?? '',
  state: fields['state'] ?? '',
  challenge: fields['code_challenge'] ?? '',
  challengeMethod: fields['code_challenge_method'] ?? '',
  tables,
})

/** From the query of authorize; tables are separated by commas. */
export const askOf = (query: Fields): Ask => asked(query, tableList(query['allowed_tables']))

/** From the JSON of consent; tables are an array, as the prompt showed them. */
export function askOfBody(body: unknown): { fields: Fields; ask: Ask } {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw refuse('invalid_request', 'the body must be a JSON object')
  }
  const { allowed_tables: tables = [], ...rest } = body as Readonly<Record<string, unknown>>
  if (tables !== null && !(Array.isArray(tables) && tables.every((name) => typeof name === 'string'))) {
    throw refuse('invalid_request', 'allowed_tables must be an array of strings')
  }
  const fields: Record<string, string> = {}
  for (const [name, value] of Object.entries(rest)) {
    if (typeof value === 'string') fields[name] = value
    else if (KNOWN.has(name) && value !== null) throw refuse('invalid_request', `${name} must be a string`)
  }
  return { fields, ask: asked(fields, sortedTables(tables ?? [])) }
}

const KNOWN = new Set(
  'decision response_type client_id redirect_uri scope state code_challenge code_challenge_method'.split(' '),
)
