import {
  autoOrBool,
  bool,
  choice,
  cidr,
  duration,
  durations,
  emptyOr,
  InvalidValue,
  int,
  listOf,
  map,
  matching,
  NamedTables,
  path,
  rate,
  size,
  str,
  tables,
  url,
  webOrigin,
} from './fields.ts'

/** Names whose environment variables would collide with other keys, such as SVC_AUTH_OAUTH_REDIRECT_URL. */
const RESERVED_PROVIDERS = new Set(['provider', 'redirect', 'return'])

const exposableSchema = matching(/^(?!svc$|pg_|information_schema$).+$/, 'a schema that can be exposed')

const HOOK_FUNCTION = /^[A-Za-z_][\w$]{0,62}\.[A-Za-z_][\w$]{0,62}$/
/** Without encryption only on this machine. */
const HOOK_URL = /^(https:\/\/|http:\/\/(localhost|127\.0\.0\.1|\[::1\])[:/])/

function checkHook(text: string): void {
  if (text === '' || HOOK_FUNCTION.test(text)) return
  const parsed = HOOK_URL.test(text) && URL.canParse(text) ? new URL(text) : undefined
  if (!parsed) throw new InvalidValue('expected schema.function or an https URL')
  if (parsed.username || parsed.password) throw new InvalidValue('a URL with a password in it')
}

const hook = (meaning: string) =>
  str('', `${meaning}: \`schema.function\` or an https URL; empty = none`, { check: checkHook })
const onHookError = <const T extends string>(choices: readonly T[]) =>
  choice(choices, choices[0] as T, 'what a hook that fails means')
const hookSecret = () => str('', 'in place of auth.hooks.secret')

/** What `pg` takes for a host of that name otherwise. */
const isDatabaseUrl = emptyOr(/^(postgres(ql)?:\/\/|socket:|\/)/i, 'expected a URL of PostgreSQL (postgres://…)')

/** Of libpq's values those that find a server that takes writes. */
const takesWrites = emptyOr(
  /^(?!.*[?&]target_session_attrs=(?!(?:any|primary|read-write)(?:&|$)))/s,
  'target_session_attrs must be any, primary or read-write',
)

function checkDatabaseUrl(text: string): void {
  isDatabaseUrl(text)
  takesWrites(text)
}

/** A web origin, or the origin that Android reports for an application. */
const passkeyOrigin = matching(
  /^(https:\/\/[^/?#\s*]+|http:\/\/localhost(:\d+)?|android:apk-key-hash:[\w-]+)$/,
  'an origin',
  (item) => (item.startsWith('android:') ? item : item.toLowerCase().replace(/\/$/, '')),
)

/** All configuration keys. The loader, its errors and docs/config.md are made from this table. */
export const table = {
  data_dir: path('./svc_data', 'embedded cluster, local storage, pid and token files', { flag: 'data-dir' }),
  server: {
    host: str('127.0.0.1', 'listen address', { flag: 'host', check: emptyOr(/^\S+$/, 'expected an address') }),
    port: int(8090, 'listen port; 0 = any free port', { max: 65_535, flag: 'port' }),
    public_base_url: url('origin', 'public origin of links, callbacks and passkeys; empty = `http://<host>:<port>`'),
    app_name: str('Savanna', 'name in mails, authenticator apps and passkey dialogs'),
    cors_origins: listOf(['*'], 'allowed origins; SVC_CORS_ORIGINS is an alias that wins', { item: webOrigin }),
    trusted_proxies: listOf([], 'peers whose X-Forwarded-* headers are believed', { item: cidr, of: 'CIDR' }),
    body_limit: size('1MB', 'largest JSON or form body'),
    workers: int(1, 'worker processes on the one port; they share max_conns, hash_concurrency and worker_concurrency', {
      min: 1,
      max: 128,
      flag: 'workers',
    }),
    tls_cert_file: path('', 'certificate chain (PEM) of the server itself, read again when it changes; empty = no TLS'),
    tls_key_file: path('', 'its private key (PEM)'),
    shutdown_timeout: duration(10, 'time in-flight requests get at a graceful stop', { min: 0 }),
  },
  database: {
    url: str('', 'connection string, of one host or several (`h1:5432,h2:5432`); empty = embedded PostgreSQL', {
      flag: 'database-url',
      check: checkDatabaseUrl,
    }),
    replica_urls: listOf(
      [],
      'connection strings of standbys that serve reads of callers, one server each and no proxy over several; `max_conns` holds for each',
    ),
    max_conns: int(25, 'connections of the pool at most, of all workers together; a few more are beside it', {
      min: 1,
      max: 1000,
    }),
    min_conns: int(2, 'connections kept open', { max: 1000 }),
    acquire_timeout: duration(10, 'wait for a connection, then 503'),
    embedded_bin_dir: path('', 'bin folder of an installed PostgreSQL for the embedded cluster; empty = from npm', {
      flag: 'pg-bin',
    }),
    direct_url: str('', 'connection past a transaction pooler, for LISTEN and migrations; empty = database.url', {
      check: checkDatabaseUrl,
    }),
    prepared_statements: bool(true, 'false for poolers without prepared statements'),
    migrations_dir: path('./migrations', 'your own migrations, run by `svc migrate up`'),
  },
  admin: {
    enabled: bool(true, 'false: no admin login, and every admin route answers 401'),
    password: str('', 'empty = generated once and kept hashed in the database'),
    shared_password: bool(true, 'false: administrators sign in by name only; tokens of the one password end'),
    require_mfa: bool(false, 'true: administrators need a second factor, and the shared password signs nobody in'),
    token_duration: duration(86_400, 'life of an admin token'),
    dashboard: bool(true, 'false: /admin/ answers 404'),
    dashboard_locked: bool(false, 'true: the dashboard only reads until it is unlocked, for ten minutes at a time'),
    environment: str('', 'name of this installation on every page of the dashboard; `production` is red', {
      check: emptyOr(/^[\p{L}\p{N} ._-]{1,40}$/u, 'must have at most 40 letters, digits, spaces, dots, dashes'),
    }),
  },
  auth: {
    enabled: bool(true, 'false: /api/auth/* answers 404'),
    jwt_secret: str(
      '',
      'root secret, at least 32 characters; empty = generated and kept in <data_dir>/root-secret, with an external database in the database',
      {
        check: emptyOr(/^.{32,}$/s, 'must have at least 32 characters'),
      },
    ),
    encryption_key: str('', '64 hex digits; encrypts stored secrets; empty = derived from the root secret', {
      check: emptyOr(/^[0-9a-f]{64}$/i, 'must be 64 hex digits'),
    }),
    previous_encryption_keys: listOf(
      [],
      'old values of auth.encryption_key (or, where that was empty, of auth.jwt_secret)',
      {
        item: matching(/^.{32,}$/s, 'a key', (item) => item),
        of: 'keys',
      },
    ),
    signing_algorithm: choice(
      ['auto', 'ES256', 'EdDSA', 'HS256'],
      'auto',
      'signs access tokens; auto = that of the newest key, on a new database ES256; see `/.well-known/jwks.json`',
    ),
    token_duration: duration(900, 'life of an access token'),
    refresh_token_duration: duration(604_800, 'life of a refresh token'),
    refresh_grace_seconds: int(0, 'time in which a used refresh token still answers', { min: 0, max: 60 }),
    min_password_length: int(8, 'shortest password', { min: 8 }),
    password_classes: int(0, 'of lower case, upper case, digits and others, how many a new password has', {
      min: 0,
      max: 4,
    }),
    password_breach_url: url(
      'http',
      'list of known passwords, asked for by the first five hex digits of the SHA-1 as `<url>/<digits>`; empty = none',
    ),
    captcha_provider: choice(
      ['none', 'turnstile', 'hcaptcha', 'recaptcha'],
      'none',
      'who proves `captcha_token` at registration, magic link, SMS, reset, and login after three failures',
    ),
    captcha_secret: str('', 'of the captcha provider'),
    captcha_url: url('http', 'another service that speaks the `siteverify` protocol; empty = the provider'),
    new_device_mail: bool(true, 'mail the owner about a sign-in from a device not seen for 90 days'),
    argon2_memory: int(19_456, 'argon2id memory in KiB', { min: 8 }),
    argon2_time: int(2, 'argon2id passes', { min: 1 }),
    argon2_threads: int(1, 'argon2id lanes', { min: 1, max: 255 }),
    hash_concurrency: int(4, 'password hashes at a time', { min: 1, max: 128 }),
    hash_queue: int(256, 'password hashes that may wait, then 503'),
    login_backoff_failures: int(10, 'failed logins per account and address before a pause', { min: 1 }),
    login_backoff_window: duration(900, 'time in which failures count, and the length of the pause'),
    verify_url: url('link', 'page that verification links open'),
    reset_url: url('link', 'page that reset links open'),
    magic_link_url: url('link', 'page that magic links open'),
    magic_link_enabled: bool(false, 'sign-in by magic link'),
    magic_link_duration: duration(600, 'life of a magic link'),
    org_roles: listOf(['owner', 'admin', 'member'], 'roles in organizations, highest first; the first is `owner`', {
      item: matching(/^[a-z][a-z0-9_]{0,31}$/, 'a role'),
      of: 'roles',
    }),
    org_invite_url: url('link', 'page that invitations open, with `#invite=<token>`'),
    anonymous_auth_enabled: bool(false, 'anonymous accounts'),
    anonymous_retention_days: int(30, 'days an unused anonymous account is kept', { min: 1, max: 36_500 }),
    totp_enabled: bool(false, 'enrolment of authenticator apps'),
    email_mfa_enabled: bool(false, 'enrolment of codes by mail'),
    webauthn_enabled: bool(false, 'passkeys: enrolment and sign-in'),
    webauthn_origins: listOf([], 'origins beside server.public_base_url that may use its passkeys', {
      item: passkeyOrigin,
      of: 'origins',
    }),
    sms_enabled: bool(false, 'sign-in and codes by SMS'),
    sms_provider: choice(['log', 'webhook', 'twilio'], 'log', 'who sends SMS'),
    sms_code_length: int(6, 'digits of a code', { min: 4, max: 8 }),
    sms_code_expiry: duration(300, 'life of a code', { min: 60, max: 600 }),
    sms_max_attempts: int(3, 'wrong tries before the code dies', { min: 1 }),
    sms_daily_limit: int(1000, 'messages per UTC day; 0 = none'),
    sms_allowed_countries: listOf([], 'empty = all; other numbers get no SMS', {
      item: matching(/^[A-Z]{2}$/, 'an ISO country code', (item) => item.toUpperCase()),
      of: 'ISO codes',
    }),
    sms_test_phone_numbers: map('fixed codes for numbers that are never sent to', 'phone→code', (phone, code) => {
      if (!/^\+[1-9]\d{6,14}$/.test(phone)) throw new InvalidValue(`not a phone number: ${phone}`)
      if (!/^\d{4,8}$/.test(code)) throw new InvalidValue(`the code of ${phone} must be 4 to 8 digits`)
    }),
    sms_webhook_url: url('http', 'receiver of provider `webhook`'),
    sms_webhook_secret: str('', 'signs what that receiver gets'),
    twilio_sid: str('', 'account of provider `twilio`'),
    twilio_token: str('', 'token of provider `twilio`'),
    twilio_from: str('', 'sender of provider `twilio`'),
    oauth_redirect_url: url('link', 'where a sign-in ends when the application named no place'),
    oauth_return_to_allowlist: listOf([], 'hosts that `redirect_to` may name', {
      item: matching(/^[^\s/]+$/, 'a host', (item) => item.toLowerCase()),
      of: 'hosts',
    }),
    oauth: new NamedTables(
      {
        enabled: bool(false, 'sign-in with this provider'),
        client_id: str('', 'required when enabled'),
        client_secret: str('', 'required when enabled'),
        issuer: url('http', 'any OpenID Connect issuer; built in for google and github'),
        authorize_url: url('http', 'endpoint; empty = built in or discovered'),
        token_url: url('http', 'endpoint; empty = built in or discovered'),
        userinfo_url: url('http', 'endpoint; empty = built in or discovered'),
        scopes: listOf([], 'requested scopes; empty = `openid,email,profile`, for github `read:user,user:email`'),
      },
      (name) => /^[a-z][a-z0-9]*$/.test(name) && !RESERVED_PROVIDERS.has(name),
    ),
    issuers: tables(
      'other issuers whose tokens are callers here: `issuer`, `audience` (list), `jwks_url` (empty = discovered), `algorithms`, `claims` (`{id, email, role}`: which claim is it), `provision` (true: an account at first sight), `max_token_age` (24h), `acr_aal2` (list: `acr` that are two factors)',
      {
        issuer: url('http', 'as in `iss`'),
        audience: listOf([], 'one of them is in `aud`'),
        jwks_url: url('http', 'the keys; empty = by discovery'),
        algorithms: listOf(['RS256', 'ES256', 'EdDSA'], 'of the signature', {
          item: matching(/^(RS|PS|ES)(256|384|512)$|^EdDSA$/, 'an asymmetric algorithm', (item) => item),
        }),
        claims: map('which claim is what', 'name→claim', (name) => {
          if (!['id', 'email', 'role'].includes(name)) throw new InvalidValue(`claims has no ${name}`)
        }),
        provision: bool(true, 'false: no account is made'),
        max_token_age: duration('24h', 'a token counts no longer', { min: 1 }),
        acr_aal2: listOf([], 'values of `acr` that are two factors'),
      },
      ['issuer', 'audience'],
    ),
    hooks: {
      before_sign_up: hook('may refuse a new account, and set its metadata'),
      before_sign_up_on_error: onHookError(['refuse', 'skip']),
      before_sign_up_secret: hookSecret(),
      before_sign_in: hook('may refuse a session'),
      before_sign_in_on_error: onHookError(['refuse']),
      before_sign_in_secret: hookSecret(),
      token_claims: hook('adds claims to access tokens'),
      token_claims_on_error: onHookError(['refuse']),
      token_claims_secret: hookSecret(),
      send_email: hook('sends mail in place of email.backend'),
      send_email_on_error: onHookError(['refuse', 'skip']),
      send_email_secret: hookSecret(),
      send_sms: hook('sends SMS in place of auth.sms_provider'),
      send_sms_on_error: onHookError(['refuse', 'skip']),
      send_sms_secret: hookSecret(),
      secret: str('', 'signs what hooks at URLs get; required for those without a secret of their own'),
    },
    oauth_provider: {
      enabled: bool(false, 'the OAuth 2.0 authorization server and OpenID provider'),
      access_token_duration: duration(3600, 'life of an access token it issues'),
      refresh_token_duration: duration(2_592_000, 'life of a refresh token it issues'),
      auth_code_duration: duration(600, 'life of a code', { min: 1, max: 600 }),
      registration: bool(false, 'applications may register themselves (RFC 7591)'),
    },
  },
  api: {
    schemas: listOf(['public'], 'exposed schemas, in lookup order', { item: exposableSchema }),
    anonymous: choice(
      ['all', 'read', 'none'],
      'all',
      'what callers without a bearer may do on collections, functions, GraphQL, schema and storage',
    ),
    text_search_config: str('english', 'full-text configuration'),
    export_max_rows: int(1_000_000, 'rows of one export, more is 413', { min: 1 }),
    import_max_size: size('100MB', 'largest body of an import'),
    idempotency_retention: duration(86_400, 'how long the answer of a request with an `Idempotency-Key` is kept', {
      min: 60,
    }),
    idempotency_size: size('1GB', 'kept answers in all; more is 429'),
    statement_timeout: duration(30, 'time a data request may take in the database, then 504'),
  },
  rate_limit: {
    register: rate('10/min', 'per address'),
    login: rate('30/min', 'per address; login and passkey login'),
    anonymous: rate('30/hour', 'per address'),
    magic_link: rate('10/min', 'per address; request and confirm'),
    sms: rate('10/min', 'per address; request and confirm, SMS as second factor'),
    password_reset: rate('10/min', 'per address; request and confirm'),
    verify_resend: rate('10/min', 'per address; verify and resend'),
    mfa_verify: rate('10/min', 'per address; every check of a second factor'),
    admin_login: rate('20/min', 'per address'),
    cdn_purge_all: rate('1/min', 'per address; a purge of everything'),
    api: rate('off', 'data routes, per user or key'),
    api_anonymous: rate('off', 'data routes without bearer, per address'),
    agents: rate('120/min', 'calls of agents, per user or key'),
  },
  agents: {
    enabled: bool(false, 'agents may work as their user at /api/mcp (Model Context Protocol)'),
    quarantine: bool(true, 'after an agent has read text of others, its writes wait for the user'),
    api_keys: bool(false, 'API keys work at /api/mcp too'),
    admin: bool(false, 'tools for the operator at /api/admin/mcp'),
    allow_private_clients: bool(
      false,
      'documents of client ids and addresses for logouts may be on private networks; for tests',
    ),
  },
  email: {
    backend: choice(['log', 'smtp', 'webhook'], 'log', 'who sends mail'),
    from: str('', 'sender address; required for `smtp`'),
    from_name: str('', 'sender name; empty = server.app_name'),
    smtp: {
      host: str('', 'mail server'),
      username: str('', 'account; empty = no login'),
      password: str('', 'password of the account'),
      port: int(587, 'port of the mail server', { min: 1, max: 65_535 }),
      tls: choice(['starttls', 'tls', 'none'], 'starttls', 'encryption'),
    },
    webhook: {
      url: url('http', 'receiver of backend `webhook`'),
      secret: str('', 'signs what that receiver gets'),
      timeout: duration(10, 'time that receiver has'),
    },
  },
  storage: {
    enabled: bool(true, 'false: storage routes answer 404'),
    backend: choice(['local', 's3'], 'local', 'where files are kept'),
    local_path: path('', 'directory of backend `local`, shared by all nodes; empty = `<data_dir>/storage`'),
    max_file_size: size('50MB', 'largest file'),
    disk_reserve: size(
      '1GB',
      'free space that uploads leave on the disk of `local_path`, at least 5 % of it; 0 = none',
      {
        min: 0,
      },
    ),
    ownerless_quota: size('10GB', 'bytes of all files that no account owns, then 507; the operator’s do not count', {
      min: 0,
    }),
    user_quota_bytes: size('0', 'bytes of all files of one account, then 413 `quota exceeded`; 0 = no limit', {
      min: 0,
    }),
    transform_cache_size: size('1GB', 'images in other sizes that are kept; the oldest go first'),
    public_sizes: listOf(
      ['160', '320', '640', '1280', '1920'],
      'sizes of images in public buckets that list none: `320` is a width, `640x480` both',
      { item: matching(/^[1-9]\d{0,3}(?:x[1-9]\d{0,3})?$/, 'a size') },
    ),
    upload_expiry: duration(86_400, 'how long a resumable upload waits for its next bytes'),
    upload_timeout: duration(300, 'time an upload may take, then 504'),
    s3_endpoint: str('', '`host[:port]` or URL of the service; empty = Amazon', {
      check: emptyOr(/^(?:https?:\/\/)?[^\s/]+\/?$/, 'expected host[:port] or a URL'),
    }),
    s3_bucket: str('', 'required for backend `s3`'),
    s3_access_key: str('', 'empty = the default credentials of the machine'),
    s3_secret_key: str('', 'secret of that key'),
    s3_region: str('us-east-1', 'region'),
    s3_use_ssl: bool(true, 'https, where the endpoint does not say'),
    cdn_url: url('http', 'what addresses of public objects begin with; empty = this server'),
    cdn: {
      provider: choice(['', 'cloudflare', 'cloudfront', 'webhook'], '', 'whose caches are purged'),
      zone_id: str('', 'zone of provider `cloudflare`'),
      api_token: str('', 'token of provider `cloudflare`'),
      distribution_id: str('', 'distribution of provider `cloudfront`'),
      endpoint: url('http', 'receiver of provider `webhook`'),
      signing_secret: str('', 'signs what that receiver gets'),
    },
  },
  events: {
    retention: duration('24h', 'how long the change log keeps a change'),
  },
  history: {
    access: choice(
      ['opened', 'policies', 'admin'],
      'opened',
      'whose history callers may read: opened tables, all under policies, none',
    ),
    retention: duration('7d', 'how far back history, `as_of` and undo reach'),
    size: size('1GB', 'most of the log that is kept for it; the oldest changes go first'),
  },
  realtime: {
    enabled: bool(true, 'false: /api/realtime answers 404'),
    watch: listOf([], 'tables whose changes from outside the API are heard too'),
    max_connections_per_user: int(100, 'open streams and WebSockets, at each worker', { min: 1 }),
    heartbeat_interval: duration(25, 'pause between signs of life'),
    buffer_size: size('1MB', 'unread bytes after which a slow client is closed'),
    live_interval_ms: int(100, 'milliseconds between two reads of a live list, at least', { min: 10, max: 60_000 }),
    open_channels: listOf(
      [],
      'channels that every user may join and send to, such as `public:*`; policies decide about the others',
    ),
    channel_rate: int(50, 'messages to channels that a caller may send in a second, over all processes', { min: 1 }),
    channel_bytes: size('16MB', 'bytes times receivers that a channel carries in a second'),
  },
  webhooks: {
    retry_delays: durations(['1s', '5s', '25s', '2m', '10m', '1h', '6h'], 'waits after failed attempts'),
    allow_private_networks: autoOrBool('receivers on private addresses; auto = while server.host is loopback'),
    delivery_retention: duration('7d', 'how long the history of deliveries is kept'),
  },
  jobs: {
    enabled: bool(true, 'false: the endpoints of jobs and schedules answer 503, and none runs'),
    worker_concurrency: int(4, 'jobs at a time, of all workers together', { min: 1, max: 1000 }),
    poll_interval_ms: int(1000, 'milliseconds between looks for work that nobody announced', {
      min: 10,
      max: 3_600_000,
    }),
    lease_duration: duration(60, 'what a dead server ran is run again within this; renewed every third of it'),
    max_attempts: int(3, 'how often a new job is tried', { min: 1, max: 1000 }),
    retention: duration('7d', 'how long finished jobs and push deliveries are kept'),
    scheduler_enabled: bool(true, 'false: this server starts no scheduled jobs'),
    scheduler_tick: duration(15, 'longest pause between looks for schedules that are due'),
  },
  push: {
    enabled: bool(false, 'push notifications; needs jobs.enabled'),
    fcm: {
      credentials_file: path('', 'service account of Firebase; empty = Android messages go to the log'),
      endpoint: url('origin', 'where messages are sent', 'https://fcm.googleapis.com'),
    },
    apns: {
      key_file: path('', 'signing key (.p8) of Apple; empty = iOS messages go to the log'),
      team_id: str('', 'required with a key file'),
      key_id: str('', 'required with a key file'),
      bundle_id: str('', 'topic of the messages; required with a key file'),
      environment: choice(['production', 'sandbox'], 'production', 'which of the two services'),
      endpoint: url('origin', 'where messages are sent; empty = by environment'),
    },
  },
  backup: {
    to: str('', 'where backups go: a folder, or `s3://bucket/prefix`; empty = no backups by the server'),
    schedule: str(
      '',
      'when a backup is taken, as a cron expression in UTC; empty = when `svc backup` or the API say so',
    ),
    keep: int(7, 'good backups that are kept; older ones go after the next good one', { min: 1, max: 10_000 }),
    verify: str(
      '0 5 * * 0',
      'when the newest backup is restored for a check, as a cron expression in UTC; empty = never',
    ),
    continuous: choice(
      ['', 'async', 'sync'],
      '',
      'async: the log is sent to the target as it is written; sync: a write is acknowledged once it is there',
    ),
    sync_timeout: duration(10, 'sync: how long writes wait for the target', { max: 3600 }),
    sync_strict: bool(false, 'sync, target away: true = writes answer 503; false = go on as async'),
    passphrase: str('', 'encrypts everything that goes to the target, and seals the root secret into it'),
    key_file: path('', 'a text file with the passphrase'),
    plain: bool(false, 'true: an `s3://` target is allowed without passphrase'),
    s3_endpoint: str('', 'as storage.s3_endpoint, for an `s3://` target; empty = as there', {
      check: emptyOr(/^(?:https?:\/\/)?[^\s/]+\/?$/, 'expected host[:port] or a URL'),
    }),
    s3_access_key: str('', 'empty = as storage.s3_access_key'),
    s3_secret_key: str('', 'secret of that key'),
    s3_region: str('', 'empty = as storage.s3_region'),
    s3_use_ssl: bool(true, 'https, where backup.s3_endpoint does not say'),
  },
  audit: {
    all_tables: bool(false, 'true: changes of data are audited, of every table'),
    tables: listOf([], 'audited tables, `table` or `schema.table`'),
    retention_days: int(90, 'days an audit entry is kept', { min: 1, max: 36_500 }),
  },
  usage: {
    enabled: bool(true, 'false: nothing is metered, and the usage endpoints answer 503'),
  },
  graphql: {
    enabled: bool(true, 'false: /api/graphql answers 404'),
    introspection: choice(
      ['auto', 'open', 'admin', 'disabled'],
      'auto',
      'who may ask for the schema; auto = everybody while server.host is loopback, else the admin',
    ),
    max_depth: int(0, 'most fields from the root to a leaf; 0 = no limit'),
    max_complexity: int(0, 'most fields of a document; 0 = no limit'),
  },
  ai: {
    embedding_provider: choice(
      ['', 'openai', 'ollama', 'hash'],
      '',
      'what turns texts into vectors; openai = any server that speaks its interface, hash = built in, without a network',
    ),
    embedding_model: str('', 'empty = text-embedding-3-small (openai), nomic-embed-text (ollama)'),
    timeout: duration(30, 'per attempt', { max: 600 }),
    max_retries: int(2, 'after connection failures, timeouts, 429 and 5xx', { max: 10 }),
    openai: {
      api_key: str('', 'sent as a bearer; empty = none'),
      base_url: url('http', '`/embeddings` is appended', 'https://api.openai.com/v1'),
    },
    ollama: {
      base_url: url('http', '`/api/embed` is appended', 'http://127.0.0.1:11434'),
    },
    breaker: {
      failure_threshold: int(5, 'failed requests in a row that open the breaker', { min: 1 }),
      open_seconds: int(30, 'until a request is tried again', { min: 1, max: 86_400 }),
    },
  },
  log: {
    level: choice(['debug', 'info', 'warn', 'error'], 'info', 'least level that is logged'),
    format: choice(
      ['auto', 'json', 'text'],
      'auto',
      'form of a line; auto = text with colour on a terminal, json elsewhere',
    ),
    buffer_size: int(1000, 'entries of /api/admin/logs; 0 = off', { max: 1_000_000 }),
  },
  telemetry: {
    otlp_endpoint: url(
      'http',
      'OTLP/HTTP collector for traces and metrics; empty = OTEL_EXPORTER_OTLP_ENDPOINT, or none',
    ),
  },
  metrics: {
    enabled: bool(true, 'false: /metrics answers 404'),
    auth_token: str('', 'bearer accepted at /metrics besides the admin token'),
  },
}
