import { areFewTables, FEW_TABLES, parseScope, scopeText } from '../../core/scope.ts'
import { refuse } from './errors.ts'

/** What an application requests at authorize, or a user approves at consent. */
export type AuthorizationRequest = {
  readonly responseType: string
  readonly redirectUri: string
  readonly scope: string
  readonly state: string
  readonly challenge: string
  readonly challengeMethod: string
  /** Sorted and deduplicated; empty = all. */
  readonly tables: readonly string[]
  /** What the tokens are for (RFC 8707); empty = the API. */
  readonly resource: string
}

export type FormFields = Readonly<Record<string, string>>

const requestOf = (fields: FormFields, tables: readonly string[]): AuthorizationRequest => ({
  responseType: fields['response_type'] ?? '',
  redirectUri: fields['redirect_uri'] ?? '',
  scope: orderedScope(fields['scope'] ?? ''),
  state: fields['state'] ?? '',
  challenge: fields['code_challenge'] ?? '',
  challengeMethod: fields['code_challenge_method'] ?? '',
  tables,
  resource: fields['resource'] ?? '',
})

/** The words of a good scope in one order, so that the same words are the same consent; others are checked later. */
export function orderedScope(text: string): string {
  const parsed = parseScope(text)
  return parsed ? scopeText(parsed) : text
}

/** From the query of authorize; tables are separated by commas. */
export const requestOfQuery = (query: FormFields): AuthorizationRequest =>
  requestOf(query, tableList(query['allowed_tables']))

/** From the JSON of consent; tables are an array, as the prompt showed them. */
export function requestOfBody(body: unknown): { fields: FormFields; request: AuthorizationRequest } {
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
    else if (PARAMETERS.has(name) && value !== null) throw refuse('invalid_request', `${name} must be a string`)
  }
  return { fields, request: requestOf(fields, sortedTables(tables ?? [])) }
}

const PARAMETERS = new Set(
  'decision response_type client_id redirect_uri scope state code_challenge code_challenge_method resource'.split(' '),
)

/** Sorted and deduplicated, so that the same tables are the same consent. */
export const tableList = (text: string | undefined): string[] =>
  sortedTables((text ?? '').split(',').map((name) => name.trim()))

function sortedTables(names: readonly string[]): string[] {
  const tables = [...new Set(names.filter((name) => name !== ''))].sort()
  if (areFewTables(tables)) return tables
  throw refuse('invalid_request', `allowed_tables: ${FEW_TABLES}`)
}
