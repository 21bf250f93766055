import type { Source, SourceRow } from './source.ts'

type FieldType = 'text' | 'number' | 'bool' | 'date' | 'autodate' | 'select' | 'json' | 'relation' | 'file' | 'geoPoint'

export type CollectionField = {
  name: string
  /** As PocketBase calls it, e.g. `editor`. */
  from: string
  type: FieldType
  isMultiple: boolean
  required: boolean
  hidden: boolean
  onlyInt: boolean
  values: readonly string[]
  /** The id of the collection a relation leads to. */
  target: string
  cascade: boolean
  isProtected: boolean
  min: number | undefined
  max: number | undefined
  /** A regular expression of Go. */
  pattern: string
  /** The same, by which a value is made where none is given. */
  autogenerate: string
  onCreate: boolean
  onUpdate: boolean
}

type RuleKind = 'listRule' | 'viewRule' | 'createRule' | 'updateRule' | 'deleteRule'

export type Collection = {
  id: string
  name: string
  type: 'base' | 'auth' | 'view'
  fields: readonly CollectionField[]
  /** By which ids are made where none is given. */
  idPattern: string
  indexes: readonly string[]
  /** null: superusers alone; empty: everybody. */
  rules: Readonly<Record<RuleKind, string | null>>
  authRule: string | null
  manageRule: string | null
  passwordAuth: boolean
  /** Ways to sign in beside a password. */
  otherSignIn: readonly string[]
  /** Of a view collection: the SELECT of SQLite. */
  query: string
}

const KINDS: Readonly<Record<string, FieldType>> = Object.assign(Object.create(null), {
  text: 'text',
  editor: 'text',
  email: 'text',
  url: 'text',
  number: 'number',
  bool: 'bool',
  date: 'date',
  autodate: 'autodate',
  select: 'select',
  json: 'json',
  relation: 'relation',
  file: 'file',
  geoPoint: 'geoPoint',
})

/** What an account has here; the record keeps none of it. */
const OF_ACCOUNTS: ReadonlySet<string> = new Set([
  ...['password', 'passwordHash', 'tokenKey', 'email', 'verified'],
  ...['lastResetSentAt', 'lastVerificationSentAt', 'lastLoginAlertSentAt'],
])

/** PocketBase's own collections; those of an app may begin with _ too. */
const SYSTEM_TABLES: ReadonlySet<string> = new Set(['_superusers', '_externalAuths', '_mfas', '_otps', '_authOrigins'])

type Given = Record<string, unknown>

type Read = { collections: Collection[]; unknownFields: { collection: string; field: string; type: string }[] }

export function readCollections(source: Source): Read {
  const columns = source.columns('_collections')
  const isNew = columns.includes('fields')
  if (!isNew && !columns.includes('schema')) {
    throw new Error('data.db is no database of PocketBase 0.22 or newer: it has no table _collections that we know')
  }
  const unknownFields: Read['unknownFields'] = []
  const collections = source
    .all('select * from _collections order by name')
    .filter((row) => !SYSTEM_TABLES.has(String(row['name'])))
    .map((row) => collectionOf(row, isNew, unknownFields))
  return { collections, unknownFields }
}

function collectionOf(row: SourceRow, isNew: boolean, unknown: Read['unknownFields']): Collection {
  const name = String(row['name'])
  const type = String(row['type']) as Collection['type']
  if (!['base', 'auth', 'view'].includes(type)) throw new Error(`the collection ${name} has an unknown type: ${type}`)
  const options = objectOf(row['options'], name)
  const given = listOf(isNew ? row['fields'] : row['schema'], name)
  const fields: CollectionField[] = []
  const idPattern = given.find(({ name: one, type: kind }) => one === 'id' && kind === 'text')?.['autogeneratePattern']
  for (const one of isNew ? given : [...given, ...impliedFields(type)]) {
    const merged = { ...(one['options'] as Given | undefined), ...one }
    const fieldName = String(one['name'])
    if (fieldName === 'id' || (type === 'auth' && OF_ACCOUNTS.has(fieldName))) continue
    const field = fieldOf(fieldName, merged)
    if (field) fields.push(field)
    else unknown.push({ collection: name, field: fieldName, type: String(one['type']) })
  }
  const rule = (key: string): string | null =>
    row[key] === null || row[key] === undefined ? null : String(row[key]).trim()
  const option = (key: string): string | null =>
    typeof options[key] === 'string' ? (options[key] as string).trim() : null
  const passwords = options['passwordAuth'] as Given | undefined
  return {
    id: String(row['id']),
    name,
    type,
    fields,
    idPattern: typeof idPattern === 'string' ? idPattern : '',
    indexes: (JSON.parse(String(row['indexes'] ?? '[]') || '[]') ?? []) as string[],
    rules: {
      listRule: rule('listRule'),
      viewRule: rule('viewRule'),
      createRule: rule('createRule'),
      updateRule: rule('updateRule'),
      deleteRule: rule('deleteRule'),
    },
    authRule: isNew ? option('authRule') : options['onlyVerified'] === true ? 'verified = true' : '',
    manageRule: option('manageRule'),
    passwordAuth: isNew
      ? passwords?.['enabled'] !== false
      : options['allowEmailAuth'] !== false || options['allowUsernameAuth'] !== false,
    otherSignIn: otherSignInOf(options),
    query: String(options['viewQuery'] ?? options['query'] ?? ''),
  }
}

function otherSignInOf(options: Given): string[] {
  const of = (key: string): Given => (options[key] ?? {}) as Given
  const providers = of('oauth2')['providers']
  return [
    ...(of('oauth2')['enabled'] === true && Array.isArray(providers)
      ? providers.map((one) => `OAuth by ${String((one as Given | null)?.['name'])}`)
      : []),
    ...(of('otp')['enabled'] === true ? ['one-time codes by mail'] : []),
    ...(of('mfa')['enabled'] === true ? ['a second factor for everybody'] : []),
  ]
}

/** Of 0.22, where every record had them without a field. */
const impliedFields = (type: string): Given[] =>
  type === 'view'
    ? []
    : [
        ...(type === 'auth'
          ? [
              { name: 'username', type: 'text' },
              { name: 'emailVisibility', type: 'bool' },
            ]
          : []),
        { name: 'created', type: 'autodate', onCreate: true },
        { name: 'updated', type: 'autodate', onCreate: true, onUpdate: true },
      ]

function fieldOf(name: string, given: Given): CollectionField | undefined {
  const from = String(given['type'])
  const type = KINDS[from]
  if (!type) return undefined
  const number = (key: string): number | undefined =>
    typeof given[key] === 'number' ? (given[key] as number) : undefined
  const maxSelect = number('maxSelect')
  // 0.22 has null for relations without a limit; everywhere else none means one.
  const isMultiple = maxSelect === undefined ? from === 'relation' && given['maxSelect'] === null : maxSelect > 1
  return {
    name,
    from,
    type,
    isMultiple: isMultiple && ['select', 'relation', 'file'].includes(type),
    required: given['required'] === true,
    hidden: given['hidden'] === true,
    onlyInt: given['onlyInt'] === true || given['noDecimal'] === true,
    values: Array.isArray(given['values']) ? given['values'].map(String) : [],
    target: String(given['collectionId'] ?? ''),
    cascade: given['cascadeDelete'] === true,
    isProtected: given['protected'] === true,
    min: number('min'),
    max: number('max'),
    pattern: from === 'text' && typeof given['pattern'] === 'string' ? given['pattern'] : '',
    autogenerate:
      from === 'text' && typeof given['autogeneratePattern'] === 'string' ? given['autogeneratePattern'] : '',
    onCreate: given['onCreate'] === true,
    onUpdate: given['onUpdate'] === true,
  }
}

function listOf(text: unknown, name: string): Given[] {
  const list: unknown = parsed(text, name)
  if (!Array.isArray(list)) throw new Error(`the fields of the collection ${name} cannot be read`)
  return list as Given[]
}

function objectOf(text: unknown, name: string): Given {
  const value = parsed(text ?? '{}', name)
  return typeof value === 'object' && value !== null ? (value as Given) : {}
}

function parsed(text: unknown, name: string): unknown {
  try {
    return JSON.parse(String(text) || 'null')
  } catch (error) {
    throw new Error(`the collection ${name} cannot be read: ${(error as Error).message}`, { cause: error })
  }
}
