import { areFewTables, FEW_TABLES, oauthScopeText, parseOAuthScope } from '../../core/scope.ts'
import { refuse } from './errors.ts'

/** OpenID Connect Core, section 3.1.2.1. `login` and `select_account` both mean that the user signs in again. */
export const PROMPTS = ['none', 'login', 'consent', 'select_account'] as const
type Prompt = (typeof PROMPTS)[number]

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
  /** Comes back in the ID token; empty = none. */
  readonly nonce: string
  readonly prompts: readonly Prompt[]
  /** Seconds since the user signed in; undefined = any. */
  readonly maxAge: number | undefined
  /** An address or user id that the client expects; empty = any. */
  readonly loginHint: string
  readonly idTokenHint: string
}

export type FormFields = Readonly<Record<string, string>>

const requestOf = (fields: FormFields, tables: readonly string[]): AuthorizationRequest => ({
  responseType: fields['response_type'] ?? '',
  redirectUri: fields['redirect_uri'] ?? '',
  scope: orderedScope(fields['scope'] || defaultScope(fields['resource'] ?? '')),
  state: fields['state'] ?? '',
  challenge: fields['code_challenge'] ?? '',
  challengeMethod: fields['code_challenge_method'] ?? '',
  tables,
  resource: fields['resource'] ?? '',
  nonce: nonceOf(fields['nonce'] ?? ''),
  prompts: promptsOf(fields['prompt'] ?? ''),
  maxAge: maxAgeOf(fields['max_age'] ?? ''),
  loginHint: fields['login_hint'] ?? '',
  idTokenHint: fields['id_token_hint'] ?? '',
})

/** RFC 6749, section 3.3. Programs in use name a resource alone; the user chooses at consent what it may. */
const defaultScope = (resource: string): string => (resource === '' ? '' : 'readwrite')

/** It is kept with the code. */
const MAX_NONCE = 512

function nonceOf(text: string): string {
  if (text.length <= MAX_NONCE && !text.includes('\0')) return text
  throw refuse('invalid_request', `nonce must have at most ${MAX_NONCE} characters`)
}

function promptsOf(text: string): Prompt[] {
  const words = text.split(' ').filter((word) => word !== '')
  const prompts = PROMPTS.filter((prompt) => words.includes(prompt))
  if (prompts.length !== new Set(words).size) throw refuse('invalid_request', `prompt must be of ${PROMPTS.join(', ')}`)
  if (prompts.includes('none') && prompts.length > 1) {
    throw refuse('invalid_request', 'prompt=none stands alone')
  }
  return prompts
}

function maxAgeOf(text: string): number | undefined {
  if (text === '') return undefined
  if (!/^\d{1,9}$/.test(text)) throw refuse('invalid_request', 'max_age must be a number of seconds')
  return Number(text)
}

/** The words of a good scope in one order, so that the same words are the same consent; others are checked later. */
export function orderedScope(text: string): string {
  const parsed = parseOAuthScope(text)
  return parsed ? oauthScopeText(parsed) : text
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
  [
    'decision response_type client_id redirect_uri scope state code_challenge code_challenge_method resource',
    'nonce prompt max_age login_hint id_token_hint',
  ].flatMap((names) => names.split(' ')),
)

/** Sorted and deduplicated, so that the same tables are the same consent. */
export const tableList = (text: string | undefined): string[] =>
  sortedTables((text ?? '').split(',').map((name) => name.trim()))

function sortedTables(names: readonly string[]): string[] {
  const tables = [...new Set(names.filter((name) => name !== ''))].sort()
  if (areFewTables(tables)) return tables
  throw refuse('invalid_request', `allowed_tables: ${FEW_TABLES}`)
}
