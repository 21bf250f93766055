import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { readPage, withTable } from '../../scripts/config-docs.ts'
import { type Config, type ConfigSources, loadConfig, publicBaseUrl } from './config.ts'

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true })
})

/** A working directory with this svc.toml. */
function folderWith(toml: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-config-'))
  folders.push(folder)
  writeFileSync(join(folder, 'svc.toml'), toml)
  return folder
}

const EMPTY = folderWith('')
const load = (sources: ConfigSources = {}): Config => loadConfig({ cwd: EMPTY, ...sources }).config
const fromFile = (toml: string): Config => load({ cwd: folderWith(toml) })
const refusal = (sources: ConfigSources): string => {
  try {
    load(sources)
  } catch (error) {
    return (error as Error).message
  }
  return 'accepted'
}
const refusalOfFile = (toml: string): string => refusal({ cwd: folderWith(toml) })

test('without a file, variables and flags every key has its default', () => {
  const config = load()
  assert.equal(config.data_dir, join(EMPTY, 'svc_data'))
  assert.equal(config.server.port, 8090)
  assert.equal(config.server.body_limit, 1024 * 1024)
  assert.equal(config.database.url, '')
  assert.equal(config.auth.token_duration, 900)
  assert.equal(config.events.retention, 86_400)
  assert.deepEqual(config.webhooks.retry_delays, [1, 5, 25, 120, 600, 3600, 21_600])
  assert.deepEqual(config.rate_limit.anonymous, { max: 30, seconds: 3600 })
  assert.equal(config.rate_limit.api, null)
  assert.equal(config.email.from_name, 'Savanna')
  assert.deepEqual(config.auth.oauth, {})
})

test('flags win over the environment, the environment over the file, the file over the default', () => {
  const cwd = folderWith('[server]\nport = 1\nhost = "a"\napp_name = "File"')
  const env = { SVC_SERVER_PORT: '2', SVC_SERVER_HOST: 'b' }
  const config = load({ cwd, env, flags: { port: '3' } })
  assert.equal(config.server.port, 3)
  assert.equal(config.server.host, 'b')
  assert.equal(config.server.app_name, 'File')
  assert.equal(config.server.shutdown_timeout, 10)
})

test('--config names another file, and a missing one is an error', () => {
  const other = join(folderWith('data_dir = "elsewhere"'), 'svc.toml')
  assert.equal(load({ file: other }).data_dir, join(EMPTY, 'elsewhere'))
  assert.equal(refusal({ file: 'no.toml' }), 'cannot read configuration file no.toml: ENOENT')
})

test('a file that is not TOML is refused in one sentence', () => {
  assert.match(refusalOfFile('[server\nport = 1'), /^cannot read configuration file svc\.toml: line 1: [^\n]+$/)
})

test('an unknown key in the file is named in full', () => {
  assert.equal(refusalOfFile('nonsense = 1'), 'unknown configuration key: nonsense')
  assert.equal(refusalOfFile('[server]\nprot = 1'), 'unknown configuration key: server.prot; did you mean server.port?')
  assert.equal(refusalOfFile('[x.y]\nz = 1'), 'unknown configuration key: x.y.z')
  assert.equal(
    refusalOfFile('[email.smtp]\nhots = "x"'),
    'unknown configuration key: email.smtp.hots; did you mean email.smtp.host?',
  )
  assert.equal(refusalOfFile('["__proto__"]\nx = 1'), 'unknown configuration key: __proto__.x')
  assert.equal(refusalOfFile('[auth.oauth.google]\nid = "x"'), 'unknown configuration key: auth.oauth.google.id')
  assert.equal(
    refusalOfFile('[auth.oauth.redirect]\nurl = "x"'),
    'unknown configuration key: auth.oauth.redirect.url; did you mean auth.oauth_redirect_url?',
  )
  assert.equal(refusal({ overrides: { 'x.y': 1 } }), 'unknown configuration key: x.y')
})

const refusedInFile: [toml: string, sentence: string][] = [
  ['server = 1', 'invalid value for server: expected a table'],
  ['[server]\nport = "8090"', 'invalid value for server.port: expected an integer'],
  ['[server]\nport = 1.5', 'invalid value for server.port: expected an integer'],
  ['[server]\nport = 65536', 'invalid value for server.port: must be at most 65535'],
  ['[server]\nport = -1', 'invalid value for server.port: must be at least 0'],
  ['[server.port]\nx = 1', 'invalid value for server.port: expected an integer'],
  ['[server]\nhost = 1', 'invalid value for server.host: expected a string'],
  ['[server]\ncors_origins = "*"', 'invalid value for server.cors_origins: expected a list of strings'],
  ['[server]\ncors_origins = [1]', 'invalid value for server.cors_origins: expected a list of strings'],
  ['[server]\ncors_origins = ["a/b"]', 'invalid value for server.cors_origins: not an origin: a/b'],
  [
    '[server]\ntrusted_proxies = ["10.0.0.0/33"]',
    'invalid value for server.trusted_proxies: not an address or CIDR block: 10.0.0.0/33',
  ],
  ['[server]\npublic_base_url = "x"', 'invalid value for server.public_base_url: expected an absolute URL'],
  ['[server]\npublic_base_url = "ftp://x"', 'invalid value for server.public_base_url: expected an http or https URL'],
  [
    '[server]\npublic_base_url = "https://x.test/path"',
    'invalid value for server.public_base_url: expected an origin such as https://api.example.com',
  ],
  ['[admin]\nenabled = "true"', 'invalid value for admin.enabled: expected true or false'],
  [
    '[auth]\ntoken_duration = "5 min"',
    'invalid value for auth.token_duration: expected seconds or a duration such as "30s", "5m", "1h", "7d"',
  ],
  ['[auth]\ntoken_duration = 0', 'invalid value for auth.token_duration: must be at least 1'],
  ['[auth]\njwt_secret = "short"', 'invalid value for auth.jwt_secret: must have at least 32 characters'],
  ['[auth]\nencryption_key = "zz"', 'invalid value for auth.encryption_key: must be 64 hex digits'],
  ['[auth]\nmin_password_length = 7', 'invalid value for auth.min_password_length: must be at least 8'],
  ['[auth]\nrefresh_grace_seconds = 61', 'invalid value for auth.refresh_grace_seconds: must be at most 60'],
  ['[auth]\nsms_provider = "pigeon"', 'invalid value for auth.sms_provider: must be one of: log, webhook, twilio'],
  ['[auth]\nsms_code_expiry = "11m"', 'invalid value for auth.sms_code_expiry: must be at most 600'],
  [
    '[auth]\nsms_allowed_countries = ["DEU"]',
    'invalid value for auth.sms_allowed_countries: not an ISO country code: DEU',
  ],
  [
    '[auth.sms_test_phone_numbers]\n12 = "1234"',
    'invalid value for auth.sms_test_phone_numbers: not a phone number: 12',
  ],
  ['[auth]\nverify_url = "javascript:alert(1)"', 'invalid value for auth.verify_url: expected an http or https URL'],
  [
    '[auth.oauth.google]\nenabled = true',
    'invalid value for auth.oauth.google.client_id: required when the provider is enabled',
  ],
  [
    '[auth.oauth.acme]\nenabled = true\nclient_id = "a"\nclient_secret = "b"',
    'invalid value for auth.oauth.acme.issuer: required unless authorize_url, token_url and userinfo_url are set',
  ],
  ['[auth]\norg_roles = ["admin"]', 'invalid value for auth.org_roles: must begin with owner'],
  [
    '[auth.hooks]\nbefore_sign_up = "public.f"',
    'invalid value for auth.hooks.before_sign_up: must lie outside exposed schemas and those of the system, unlike public',
  ],
  [
    '[auth.hooks]\ntoken_claims = "svc.f"',
    'invalid value for auth.hooks.token_claims: must lie outside exposed schemas and those of the system, unlike svc',
  ],
  [
    '[auth.hooks]\nsend_sms = "http://sms.test/"',
    'invalid value for auth.hooks.send_sms: expected schema.function or an https URL',
  ],
  ['[auth.hooks]\nsend_sms = "f"', 'invalid value for auth.hooks.send_sms: expected schema.function or an https URL'],
  [
    '[auth.hooks]\nsend_email = "https://mail.test/"',
    'invalid value for auth.hooks.secret: required with a URL in auth.hooks.send_email',
  ],
  [
    '[auth.hooks]\nbefore_sign_in_on_error = "skip"',
    'invalid value for auth.hooks.before_sign_in_on_error: must be one of: refuse',
  ],
  [
    '[auth.hooks]\ntoken_claims_on_error = "skip"',
    'invalid value for auth.hooks.token_claims_on_error: must be one of: refuse',
  ],
  ['[api]\nschemas = []', 'invalid value for api.schemas: must not be empty'],
  ['[api]\nschemas = ["svc"]', 'invalid value for api.schemas: not a schema that can be exposed: svc'],
  ['[rate_limit]\nlogin = "5/day"', 'invalid value for rate_limit.login: expected "N/min", "N/hour" or "off"'],
  ['[rate_limit]\nlogin = "0/min"', 'invalid value for rate_limit.login: expected "N/min", "N/hour" or "off"'],
  ['[rate_limit]\nlogin = 5', 'invalid value for rate_limit.login: expected a rate such as "10/min"'],
  ['[email]\nbackend = "smtp"', 'invalid value for email.from: required when email.backend is smtp'],
  [
    '[database]\nmin_conns = 5\nmax_conns = 4',
    'invalid value for database.min_conns: must not exceed database.max_conns',
  ],
  [
    '[realtime]\nbuffer_size = "1TB"',
    'invalid value for realtime.buffer_size: expected bytes or a size such as "10KB", "50MB", "1GB"',
  ],
  [
    '[webhooks]\nretry_delays = ["x"]',
    'invalid value for webhooks.retry_delays: expected seconds or a duration such as "30s", "5m", "1h", "7d"',
  ],
  [
    '[webhooks]\nallow_private_networks = "maybe"',
    'invalid value for webhooks.allow_private_networks: expected true or false',
  ],
]
for (const [toml, sentence] of refusedInFile) {
  test(`refused: ${toml.replaceAll('\n', ' ')}`, () => assert.equal(refusalOfFile(toml), sentence))
}

test('a bad variable is refused with the name of its key', () => {
  assert.equal(refusal({ env: { SVC_SERVER_PORT: 'x' } }), 'invalid value for server.port: expected an integer')
  assert.equal(
    refusal({ env: { SVC_ADMIN_ENABLED: 'yes' } }),
    'invalid value for admin.enabled: expected true or false',
  )
  assert.equal(
    refusal({ env: { SVC_AUTH_SMS_TEST_PHONE_NUMBERS: '{' } }),
    'invalid value for auth.sms_test_phone_numbers: expected JSON',
  )
})

test('values have the types they are documented with, in the file and in the environment', () => {
  const file = fromFile(`
    [server]
    body_limit = "10KB"
    cors_origins = ["https://A.test/"]
    [auth]
    token_duration = "5m"
    refresh_token_duration = 60
    sms_allowed_countries = ["de"]
    sms_test_phone_numbers = { "+15005550006" = "123456" }
    [auth.oauth.google]
    client_id = "abc"
    scopes = ["openid"]`)
  assert.equal(file.server.body_limit, 10_240)
  assert.deepEqual(file.server.cors_origins, ['https://a.test'])
  assert.equal(file.auth.token_duration, 300)
  assert.equal(file.auth.refresh_token_duration, 60)
  assert.deepEqual(file.auth.sms_allowed_countries, ['DE'])
  assert.deepEqual(file.auth.sms_test_phone_numbers, { '+15005550006': '123456' })
  assert.equal(file.auth.oauth['google']?.client_id, 'abc')
  assert.equal(file.auth.oauth['google']?.enabled, false)

  const env = load({
    env: {
      SVC_SERVER_BODY_LIMIT: '2GB',
      SVC_SERVER_CORS_ORIGINS: 'https://a.test, https://b.test',
      SVC_AUTH_TOKEN_DURATION: '7d',
      SVC_AUTH_SMS_ENABLED: '1',
      SVC_AUTH_SMS_TEST_PHONE_NUMBERS: '{"+15005550006":"123456"}',
      SVC_AUTH_OAUTH_GITHUB_CLIENT_SECRET: 's3cret',
      SVC_AUTH_OAUTH_REDIRECT_URL: 'myapp://done',
      SVC_WEBHOOKS_RETRY_DELAYS: '1s,2m',
      SVC_RATE_LIMIT_LOGIN: 'off',
      SVC_REALTIME_WATCH: '["a,b"]',
      SVC_EMAIL_FROM_NAME: '',
    },
  })
  assert.equal(env.server.body_limit, 2 * 1024 ** 3)
  assert.deepEqual(env.server.cors_origins, ['https://a.test', 'https://b.test'])
  assert.equal(env.auth.token_duration, 604_800)
  assert.equal(env.auth.sms_enabled, true)
  assert.deepEqual(env.auth.sms_test_phone_numbers, { '+15005550006': '123456' })
  assert.equal(env.auth.oauth['github']?.client_secret, 's3cret')
  assert.equal(env.auth.oauth_redirect_url, 'myapp://done')
  assert.deepEqual(env.webhooks.retry_delays, [1, 120])
  assert.equal(env.rate_limit.login, null)
  assert.deepEqual(env.realtime.watch, ['a,b'])
  assert.equal(env.email.from_name, 'Savanna')
})

test('SVC_CORS_ORIGINS wins over the long name', () => {
  const { server } = load({ env: { SVC_SERVER_CORS_ORIGINS: 'https://a.test', SVC_CORS_ORIGINS: 'https://b.test' } })
  assert.deepEqual(server.cors_origins, ['https://b.test'])
})

test('an unknown SVC_ variable is warned about, the token of the command line tool is not', () => {
  const { warnings } = loadConfig({
    cwd: EMPTY,
    env: { SVC_SERVER_PROT: '1', SVC_ADMIN_TOKEN: 'x', SVC_AUTH_OAUTH_REDIRECT_ENABLED: 'true', PATH: '/' },
  })
  assert.deepEqual(warnings, [
    'unknown environment variable: SVC_AUTH_OAUTH_REDIRECT_ENABLED',
    'unknown environment variable: SVC_SERVER_PROT',
  ])
})

test('the configuration cannot be changed', () => {
  const config = load() as unknown as { server: { port: number; cors_origins: string[] } }
  assert.throws(() => {
    config.server.port = 1
  }, TypeError)
  assert.throws(() => config.server.cors_origins.push('x'), TypeError)
})

test('the public origin is derived from the address, with local ones written localhost', () => {
  assert.equal(publicBaseUrl(load()), 'http://localhost:8090')
  assert.equal(publicBaseUrl(load({ overrides: { 'server.host': '::', 'server.port': '1' } })), 'http://localhost:1')
  assert.equal(publicBaseUrl(load({ overrides: { 'server.host': '2001:db8::1' } })), 'http://[2001:db8::1]:8090')
  assert.equal(publicBaseUrl(load({ overrides: { 'server.port': 0 } }), 4711), 'http://localhost:4711')
  const set = load({ overrides: { 'server.public_base_url': 'https://API.example.com/' } })
  assert.equal(publicBaseUrl(set), 'https://api.example.com')
})

test('docs/config.md lists exactly the keys there are (scripts/config-docs.ts writes it)', () => {
  assert.equal(readPage(), withTable(readPage()))
})
