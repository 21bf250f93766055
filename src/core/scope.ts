/** What a key or token may do with data: a scope has exactly one of these words. */
const DATA_SCOPES = ['readonly', 'readwrite', '*'] as const
type DataScope = (typeof DATA_SCOPES)[number]

/** What it may do with files, besides. */
const STORAGE_SCOPES = ['storage:read', 'storage:write'] as const
type StorageScope = (typeof STORAGE_SCOPES)[number]

const SCOPE_WORDS: readonly string[] = [...DATA_SCOPES, ...STORAGE_SCOPES]

/** Who the user is (OpenID Connect Core, section 5.4), and refresh tokens of such a client (section 11). Of OAuth tokens only. */
const IDENTITY_SCOPES = ['openid', 'profile', 'email', 'offline_access'] as const
type IdentityScope = (typeof IDENTITY_SCOPES)[number]

/** The words that an OAuth client may be given. */
export const OAUTH_SCOPE_WORDS: readonly string[] = [...IDENTITY_SCOPES, ...SCOPE_WORDS]

type Scope = { readonly data: DataScope; readonly storage: readonly StorageScope[] }

/** The rights of an API key or OAuth token. */
export type Grant = {
  scope: DataScope
  /** Unqualified or schema-qualified table names; empty = all tables. */
  tables: readonly string[]
  /** What it may do with files in buckets. */
  files: { readonly read: boolean; readonly write: boolean }
  /** App whose rate limit and usage count this token's requests. */
  appId: string | null
}

/** Grants are kept for every caller, in memory too. */
const [MAX_TABLES, MAX_TABLE_NAME] = [100, 128]
export const FEW_TABLES = `at most ${MAX_TABLES} names of ${MAX_TABLE_NAME} characters`
export const areFewTables = (names: readonly string[]): boolean =>
  names.length <= MAX_TABLES && names.every((name) => name.length <= MAX_TABLE_NAME)

/**
 * Words separated by one space, in any order (RFC 6749, section 3.3); undefined for any other text, and for one that says
 * `readonly` and writes files.
 */
export function parseScope(text: string): Scope | undefined {
  const scope = wordsOf(text)
  return scope?.data === 'readonly' && scope.storage.includes('storage:write') ? undefined : scope
}

function wordsOf(text: string): Scope | undefined {
  const words = text.split(' ')
  const data = DATA_SCOPES.filter((word) => words.includes(word))
  const storage = STORAGE_SCOPES.filter((word) => words.includes(word))
  const [first] = data
  return first !== undefined && data.length === 1 && 1 + storage.length === words.length
    ? { data: first, storage }
    : undefined
}

/** The scope of an OAuth token; without `data` it says who the user is and opens nothing else. */
type OAuthScope = { readonly identity: readonly IdentityScope[]; readonly data: Scope | undefined }

export const isIdentityScope = (word: string): boolean => IDENTITY_SCOPES.some((known) => known === word)
const dataWords = (text: string): string[] => text.split(' ').filter((word) => !isIdentityScope(word))

/** As `parseScope`, with words about the user beside those about data, or without any of the latter. */
export function parseOAuthScope(text: string): OAuthScope | undefined {
  const words = text.split(' ')
  const identity = IDENTITY_SCOPES.filter((word) => words.includes(word))
  const rest = dataWords(text)
  if (identity.length + rest.length !== words.length) return undefined
  if (rest.length === 0) return identity.includes('openid') ? { identity, data: undefined } : undefined
  const data = parseScope(rest.join(' '))
  return data && { identity, data }
}

/** The same words are the same text, those about the user first. */
export const oauthScopeText = ({ identity, data }: OAuthScope): string =>
  [...identity, ...(data ? [scopeText(data)] : [])].join(' ')

/** Whether a scope has a word. */
export const hasScope = (scope: string, word: IdentityScope): boolean => scope.split(' ').includes(word)

/** Whether a token of this scope reaches data or files at all. */
export const opensData = (scope: string): boolean => dataWords(scope).length > 0

/** The same words are the same text. */
export const scopeText = ({ data, storage }: Scope): string => [data, ...storage].join(' ')

/**
 * What a scope means together with the tables it is limited to. Without such a limit the word about data holds for files
 * too; with one, files are reached by the storage words alone. Grants of before keep what they say.
 */
export function grantOf(scope: string, tables: readonly string[], appId: string | null): Grant {
  const { data, storage } = wordsOf(dataWords(scope).join(' ')) ?? { data: 'readonly', storage: [] }
  const isLimited = tables.length > 0
  return {
    scope: data,
    tables,
    files: {
      read: !isLimited || storage.includes('storage:read'),
      write: (!isLimited && data !== 'readonly') || storage.includes('storage:write'),
    },
    appId,
  }
}
