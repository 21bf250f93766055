import type { Config } from '../config/config.ts'
import { deriveKey } from '../core/secret.ts'
import { Script } from '../db/script/script.ts'
import { createAdmin } from '../features/admin/routes.ts'
import { createApiKeys } from '../features/api-keys/routes.ts'
import { revokeKeysOf } from '../features/api-keys/sql.ts'
import { createApps } from '../features/apps/routes.ts'
import { unknownTables } from '../features/audit/data-audit.ts'
import { deleteUser } from '../features/auth/accounts/sql.ts'
import { createAuth } from '../features/auth/routes.ts'
import { createPasswords } from '../features/auth/sign-in/hashing.ts'
import { loadRootSecret } from '../features/auth/tokens/keys.ts'
import { Revocations } from '../features/auth/tokens/revocations.ts'
import { revokeClientsOfApp } from '../features/oauth-server/clients.ts'
import { endGrantsOf, Grants } from '../features/oauth-server/grants.ts'
import { createOAuthServer } from '../features/oauth-server/routes.ts'
import { createUsers } from '../features/users/routes.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Messages } from './messages.ts'
import type { AppOptions } from './options.ts'
import { passwordNote } from './password-note.ts'
import type { Platform } from './platform.ts'
import { SecretKeeper, secretBoxOf } from './secrets.ts'

/** Who is calling: accounts, sessions, keys, and the operator. */
export async function createIdentity(
  config: Config,
  platform: Platform,
  { email, sms }: Messages,
  life: Lifecycle,
  { logEntries, askAllWorkers }: Required<Pick<AppOptions, 'logEntries' | 'askAllWorkers'>>,
) {
  const { db, schema, observe, gateways, publicUrl } = platform
  const [revocations, rootSecret] = await Promise.all([
    Revocations.open({ db, observe }).then((opened) => life.own(opened)),
    loadRootSecret(db, config.auth.jwt_secret, platform.secretFile),
  ])
  const passwords = life.own(
    createPasswords({
      memory: config.auth.argon2_memory,
      time: config.auth.argon2_time,
      threads: config.auth.argon2_threads,
      concurrency: config.auth.hash_concurrency,
      queue: config.auth.hash_queue,
    }),
  )
  const box = secretBoxOf(config.auth, rootSecret)
  const secrets = new SecretKeeper({ db, box, observe })

  const admin = createAdmin({
    db,
    config: config.admin,
    passwords,
    // Beside its key a note would make guesses cheap, and with the embedded database the root secret is there.
    note:
      config.database.url === ''
        ? undefined
        : passwordNote(config.data_dir, deriveKey(rootSecret, '', 'admin password')),
    observe,
    warnings: () => [
      ...platform.warnings(),
      ...secrets.warnings(),
      ...unknownTables(schema.read(), config.audit.tables),
    ],
    logs: { size: config.log.buffer_size, entries: askAllWorkers('logs', logEntries) },
    openScript: async () => new Script(await db.openConnection()),
    reloadSchema: async () => void (await schema.reload()),
    schemas: config.api.schemas,
  })
  const apiKeys = createApiKeys({ db, revoked: (id) => revocations.apply([{ kind: 'key', subject: id }]) })
  const { enabled: isOAuthServer, ...oauthLives } = config.auth.oauth_provider
  const grants = new Grants({
    db,
    config: oauthLives,
    revoked: (ids) => revocations.apply(ids.map((subject) => ({ kind: 'oauth_token', subject }))),
  })
  const apps = createApps({ db, endWithApp: (appId) => [revokeClientsOfApp(appId)] })
  const auth = createAuth({
    db,
    revocations,
    config: config.auth,
    appName: config.server.app_name,
    publicBaseUrl: () => publicUrl.get(),
    rootSecret,
    box,
    passwords,
    outgoing: gateways,
    observe,
    queueMail: email.queueMail,
    wakeMail: email.wakeMail,
    queueSms: sms.queueSms,
    wakeSms: sms.wakeSms,
    resolveApiKey: apiKeys.resolveApiKey,
    resolveAdminToken: admin.tokens.resolve,
    ...(isOAuthServer && { resolveOAuthToken: (token: string) => grants.resolve(token) }),
    foreign: {
      endGrants: (userId) => [endGrantsOf(userId)],
      dropCredentials: (userId) => [revokeKeysOf(userId), endGrantsOf(userId)],
    },
  })
  const oauthServer = createOAuthServer({
    db,
    grants,
    enabled: isOAuthServer,
    appName: config.server.app_name,
    publicBaseUrl: () => publicUrl.get(),
    hasPasskeys: () => auth.settings().webauthn_enabled,
  })
  const users = createUsers({
    db,
    authEnabled: config.auth.enabled,
    deleteUser,
    revoked: (id) => revocations.apply([{ kind: 'user', subject: id }]),
  })
  return {
    admin,
    apps,
    identify: auth.identify,
    revocations,
    passwords,
    box,
    /** A key for one purpose, which stays the same when the keys of tokens are rotated. */
    keyFor: (purpose: string) => deriveKey(rootSecret, '', purpose),
    features: [admin, secrets, auth, users, apiKeys, apps, oauthServer],
  }
}

export type IdentityGroup = Awaited<ReturnType<typeof createIdentity>>
