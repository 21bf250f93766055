import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parse as parseToml } from 'smol-toml'
import { nearestName } from '../core/nearest.ts'
import { Field, InvalidValue, NamedTables, type RawValue } from './fields.ts'
import { table } from './table.ts'

type Values<S> = {
  readonly [K in keyof S]: S[K] extends Field<infer T>
    ? T
    : S[K] extends NamedTables<infer N>
      ? Readonly<Record<string, Values<N>>>
      : Values<S[K]>
}
export type Config = Values<typeof table>

/** A configuration the server cannot start with; the message is for the operator. */
class ConfigError extends Error {}

export type ConfigSources = {
  /** Default: svc.toml in the working directory, if it exists. */
  file?: string | undefined
  env?: Readonly<Record<string, string | undefined>>
  /** By flag name (`data-dir`). */
  flags?: Readonly<Record<string, string | undefined>>
  /** By dotted key, typed or as text; the highest precedence. */
  overrides?: Readonly<Record<string, unknown>>
  cwd?: string
}

/** Values by dotted key; a later source replaces an earlier one. */
type FoundValues = Map<string, { value: unknown; text: boolean; source: SettingSource }>

/** Where a value comes from; what comes later wins. */
export type SettingSource = 'default' | 'file' | 'environment' | 'flag' | 'override'

/** Variables of the command line tool. */
const FOREIGN_VARIABLES = new Set(['SVC_ADMIN_TOKEN'])

const invalid = (key: string, reason: string): ConfigError => new ConfigError(`invalid value for ${key}: ${reason}`)

function unknownKey(key: string): ConfigError {
  const near = nearestName(key, fieldByKey.keys())
  return new ConfigError(`unknown configuration key: ${key}${near === undefined ? '' : `; did you mean ${near}?`}`)
}

export const envName = (key: string): string => `SVC_${key.replaceAll('.', '_').toUpperCase()}`

/** By key, of what is not a default. A symbol, which copies of the configuration keep. */
const SOURCES = Symbol('sources')

export const settingSourceOf = (config: Config, key: string): SettingSource =>
  (config as { [SOURCES]?: ReadonlyMap<string, SettingSource> })[SOURCES]?.get(key) ?? 'default'

/** defaults < file < environment < flags < overrides */
export function loadConfig(sources: ConfigSources = {}): { config: Config; warnings: string[] } {
  const cwd = sources.cwd ?? process.cwd()
  const found: FoundValues = new Map()
  const warnings: string[] = []
  for (const [key, value] of fileEntries(sources.file, cwd)) found.set(key, { value, text: false, source: 'file' })
  readEnv(sources.env ?? {}, found, warnings)
  for (const { key, field } of fixedFields) {
    const value = field.flag === undefined ? undefined : sources.flags?.[field.flag]
    if (value !== undefined) found.set(key, { value, text: true, source: 'flag' })
  }
  for (const [key, value] of Object.entries(sources.overrides ?? {})) {
    if (fieldAt(key) === undefined) throw unknownKey(key)
    found.set(key, { value, text: typeof value === 'string', source: 'override' })
  }
  const origins = new Map([...found].map(([key, { source }]) => [key, source]))
  const config = { ...withDerived(build(table, '', found, cwd) as Config), [SOURCES]: origins }
  checkCombinations(config)
  return { config: deepFreeze(config), warnings }
}

/** The public origin; `port` is the real port when the configured port is 0. */
export function publicBaseUrl(config: Config, port = config.server.port): string {
  if (config.server.public_base_url !== '') return config.server.public_base_url
  const { host, tls_cert_file: certFile } = config.server
  const scheme = certFile === '' ? 'http' : 'https'
  if (['127.0.0.1', '::1', '0.0.0.0', '::'].includes(host)) return `${scheme}://localhost:${port}`
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

// ── The table, flattened ─────────────────────────────────────────────────────────────────────────────

type ConfigKey = { key: string; field: Field<unknown> }

function* walk(node: object, prefix: string): Generator<ConfigKey | { key: string; tables: NamedTables<object> }> {
  for (const [name, child] of Object.entries(node)) {
    const key = prefix + name
    if (child instanceof Field) yield { key, field: child }
    else if (child instanceof NamedTables) yield { key, tables: child }
    else yield* walk(child, `${key}.`)
  }
}

const entries = [...walk(table, '')]
const fixedFields = entries.filter((entry): entry is ConfigKey => 'field' in entry)
const namedTables = entries.filter((entry) => 'tables' in entry)
const fieldByKey = new Map(fixedFields.map(({ key, field }) => [key, field]))
const keyByVariable = new Map(fixedFields.map(({ key }) => [envName(key), key]))

/** Every key that has a value, with its field. */
export function settingKeysOf(config: Config): ConfigKey[] {
  return entries.flatMap((entry) =>
    'field' in entry
      ? [entry]
      : Object.keys(valueAt(config, entry.key) as object).flatMap((name) =>
          [...walk(entry.tables.spec, `${entry.key}.${name}.`)].filter((inner): inner is ConfigKey => 'field' in inner),
        ),
  )
}

export const valueAt = (config: Config, key: string): unknown =>
  key.split('.').reduce((node: unknown, name) => (node as Record<string, unknown>)[name], config)

/** Every key with its field, for docs/config.md; `<p>` is a name the operator chooses. */
export function listedKeys(): ConfigKey[] {
  return entries.flatMap((entry) =>
    'field' in entry
      ? [entry]
      : [...walk(entry.tables.spec, `${entry.key}.<p>.`)].filter((inner): inner is ConfigKey => 'field' in inner),
  )
}

function fieldAt(key: string): Field<unknown> | undefined {
  const fixed = fieldByKey.get(key)
  if (fixed !== undefined) return fixed
  for (const { key: prefix, tables } of namedTables) {
    if (!key.startsWith(`${prefix}.`)) continue
    const [name = '', leaf = '', ...more] = key.slice(prefix.length + 1).split('.')
    if (tables.allows(name) && more.length === 0 && Object.hasOwn(tables.spec, leaf)) {
      return (tables.spec as Record<string, Field<unknown>>)[leaf]
    }
  }
  return undefined
}

// ── Sources ──────────────────────────────────────────────────────────────────────────────────────────

function fileEntries(file: string | undefined, cwd: string): [string, unknown][] {
  const name = file ?? 'svc.toml'
  let text: string
  try {
    text = readFileSync(resolve(cwd, name), 'utf8')
  } catch (error) {
    if (file === undefined && (error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new ConfigError(`cannot read configuration file ${name}: ${(error as NodeJS.ErrnoException).code}`)
  }
  try {
    return flatten(parseToml(text), '')
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const { message, line } = error as Error & { line?: number }
    const reason = (message.split('\n')[0] ?? '').replace(/^Invalid TOML document: /, '')
    throw new ConfigError(`cannot read configuration file ${name}: line ${line ?? '?'}: ${reason}`)
  }
}

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date)

/** The leaves of the file by dotted key. The error for an unknown table names its first leaf. */
function flatten(node: Record<string, unknown>, prefix: string): [string, unknown][] {
  return Object.entries(node).flatMap(([name, value]): [string, unknown][] => {
    const key = prefix + name
    if (fieldAt(key) !== undefined) return [[key, value]]
    if (isTable(value) && Object.keys(value).length > 0) return flatten(value, `${key}.`)
    const isKnownTable = entries.some((entry) => entry.key === key || entry.key.startsWith(`${key}.`))
    if (!isKnownTable) throw unknownKey(key)
    if (isTable(value)) return []
    throw invalid(key, 'expected a table')
  })
}

function readEnv(env: Readonly<Record<string, string | undefined>>, found: FoundValues, warnings: string[]): void {
  for (const [variable, value] of Object.entries(env).sort()) {
    if (!variable.startsWith('SVC_') || value === undefined || FOREIGN_VARIABLES.has(variable)) continue
    if (variable === 'SVC_CORS_ORIGINS') continue
    const key = keyByVariable.get(variable) ?? namedKey(variable)
    const field = key === undefined ? undefined : fieldAt(key)
    if (key === undefined || field === undefined) {
      warnings.push(`unknown environment variable: ${variable}`)
      continue
    }
    // Container tools pass unset variables as empty strings, so only for lists an empty value counts.
    if (value !== '' || field.type.startsWith('list')) found.set(key, { value, text: true, source: 'environment' })
  }
  // As other programs take it; our own variable wins.
  const otlp = env['OTEL_EXPORTER_OTLP_ENDPOINT']
  if (otlp && !found.has('telemetry.otlp_endpoint'))
    found.set('telemetry.otlp_endpoint', { value: otlp, text: true, source: 'environment' })
  const alias = env['SVC_CORS_ORIGINS']
  if (alias !== undefined) found.set('server.cors_origins', { value: alias, text: true, source: 'environment' })
}

/** SVC_AUTH_OAUTH_GOOGLE_CLIENT_ID → auth.oauth.google.client_id */
function namedKey(variable: string): string | undefined {
  for (const { key } of namedTables) {
    const prefix = `${envName(key)}_`
    const [, name, leaf] = /^([A-Z0-9]+)_(\w+)$/.exec(variable.slice(prefix.length)) ?? []
    if (variable.startsWith(prefix) && name !== undefined && leaf !== undefined) {
      return `${key}.${name.toLowerCase()}.${leaf.toLowerCase()}`
    }
  }
  return undefined
}

// ── Values ───────────────────────────────────────────────────────────────────────────────────────────

function build(spec: object, prefix: string, found: FoundValues, cwd: string): Record<string, unknown> {
  const built: Record<string, unknown> = {}
  for (const [name, child] of Object.entries(spec)) {
    const key = prefix + name
    if (child instanceof Field) {
      const { value, text } = found.get(key) ?? { value: child.fallback, text: false }
      built[name] = read(key, child, { value, text, cwd })
    } else if (child instanceof NamedTables) {
      const names = [...found.keys()].filter((k) => k.startsWith(`${key}.`)).map((k) => k.split('.').at(-2) ?? '')
      built[name] = Object.fromEntries(
        [...new Set(names)].sort().map((one) => [one, build(child.spec, `${key}.${one}.`, found, cwd)]),
      )
    } else {
      built[name] = build(child, `${key}.`, found, cwd)
    }
  }
  return built
}

function read(key: string, field: Field<unknown>, input: RawValue): unknown {
  try {
    return field.read(input)
  } catch (error) {
    if (error instanceof InvalidValue) throw invalid(key, error.message)
    throw error
  }
}

const withDerived = (config: Config): Config => ({
  ...config,
  database: { ...config.database, direct_url: config.database.direct_url || config.database.url },
  email: { ...config.email, from_name: config.email.from_name || config.server.app_name },
  storage: {
    ...config.storage,
    local_path: config.storage.local_path || join(config.data_dir, 'storage'),
    cdn_url: config.storage.cdn_url.replace(/\/+$/, ''),
  },
})

const HOOKS = ['before_sign_up', 'before_sign_in', 'token_claims', 'send_email', 'send_sms'] as const

/** Required keys by provider. */
const CDN_KEYS = {
  '': [],
  cloudflare: ['zone_id', 'api_token'],
  cloudfront: ['distribution_id'],
  webhook: ['endpoint'],
} as const

/** Checks that involve several keys. */
function checkCombinations({ server, auth, api, backup, database, email, storage, jobs, push }: Config): void {
  if (database.min_conns > database.max_conns) throw invalid('database.min_conns', 'must not exceed database.max_conns')
  if (auth.org_roles[0] !== 'owner') throw invalid('auth.org_roles', 'must begin with owner')
  if (api.schemas.length === 0) throw invalid('api.schemas', 'must not be empty')
  const needed = (key: string, value: string, when: string) => {
    if (value === '') throw invalid(key, `required ${when}`)
  }
  for (const name of HOOKS) {
    const hook = auth.hooks[name]
    const [schema = ''] = hook.split('.')
    if (hook.includes('/')) {
      const secret = auth.hooks[`${name}_secret`] || auth.hooks.secret
      needed('auth.hooks.secret', secret, `with a URL in auth.hooks.${name}`)
    } else if (api.schemas.includes(schema) || /^(svc|information_schema|pg_.*)$/.test(schema)) {
      throw invalid(`auth.hooks.${name}`, `must lie outside exposed schemas and those of the system, unlike ${schema}`)
    }
  }
  if (server.tls_cert_file !== '') needed('server.tls_key_file', server.tls_key_file, 'with server.tls_cert_file')
  if (server.tls_key_file !== '') needed('server.tls_cert_file', server.tls_cert_file, 'with server.tls_key_file')
  if (email.backend === 'smtp') {
    needed('email.from', email.from, 'when email.backend is smtp')
    needed('email.smtp.host', email.smtp.host, 'when email.backend is smtp')
  }
  if (email.backend === 'webhook') needed('email.webhook.url', email.webhook.url, 'when email.backend is webhook')
  if (auth.sms_provider === 'webhook') {
    needed('auth.sms_webhook_url', auth.sms_webhook_url, 'when auth.sms_provider is webhook')
  }
  if (auth.sms_provider === 'twilio') {
    for (const key of ['twilio_sid', 'twilio_token', 'twilio_from'] as const) {
      needed(`auth.${key}`, auth[key], 'when auth.sms_provider is twilio')
    }
  }
  if (storage.backend === 's3') needed('storage.s3_bucket', storage.s3_bucket, 'when storage.backend is s3')
  const { cdn } = storage
  for (const key of CDN_KEYS[cdn.provider]) {
    needed(`storage.cdn.${key}`, cdn[key], `when storage.cdn.provider is ${cdn.provider}`)
  }
  if (backup.schedule !== '' && !jobs.enabled) throw invalid('backup.schedule', 'needs jobs.enabled')
  if (backup.schedule !== '') needed('backup.to', backup.to, 'with backup.schedule')
  if (backup.continuous !== '') needed('backup.to', backup.to, 'with backup.continuous')
  if (push.enabled && !jobs.enabled) throw invalid('push.enabled', 'needs jobs.enabled')
  if (push.apns.key_file !== '') {
    for (const key of ['team_id', 'key_id', 'bundle_id'] as const) {
      needed(`push.apns.${key}`, push.apns[key], 'with push.apns.key_file')
    }
  }
  for (const [name, provider] of Object.entries(auth.oauth)) {
    if (!provider.enabled) continue
    const at = `auth.oauth.${name}`
    needed(`${at}.client_id`, provider.client_id, 'when the provider is enabled')
    needed(`${at}.client_secret`, provider.client_secret, 'when the provider is enabled')
    const hasEndpoints = provider.authorize_url && provider.token_url && provider.userinfo_url
    if (name !== 'google' && name !== 'github' && !hasEndpoints) {
      needed(`${at}.issuer`, provider.issuer, 'unless authorize_url, token_url and userinfo_url are set')
    }
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner)
    Object.freeze(value)
  }
  return value
}
