import type { Config } from '../config/config.ts'
import { AppError } from '../core/errors.ts'
import type { UserIdentity } from '../core/identity.ts'
import { deriveKey } from '../core/secret.ts'
import type { Tx } from '../db/db.ts'
import { Script } from '../db/script/script.ts'
import type { Sql } from '../db/sql.ts'
import { createAccounts } from '../features/accounts/routes.ts'
import { deleteUser } from '../features/accounts/sql.ts'
import { createAdmin } from '../features/admin/routes.ts'
import { createApiKeys } from '../features/api-keys/routes.ts'
import { revokeKeysOf, revokeOwnKeysOf } from '../features/api-keys/sql.ts'
import { createApps } from '../features/apps/routes.ts'
import { unknownTables } from '../features/audit/data-audit.ts'
import { loadRootSecret } from '../features/auth/keys.ts'
import { type Revocation, Revocations } from '../features/auth/revocations.ts'
import { createAuth } from '../features/auth/routes.ts'
import { endOtherSessions } from '../features/auth/sql.ts'
import { createSavedItems } from '../features/dashboard/saved-items.ts'
import { createImpersonation } from '../features/impersonation/routes.ts'
import { createMfa } from '../features/mfa/routes.ts'
import { dropFactors, dropFactorsSince } from '../features/mfa/sql.ts'
import { revokeClientsOfApp } from '../features/oauth-server/clients.ts'
import { Grants } from '../features/oauth-server/grants.ts'
import { createOAuthServer } from '../features/oauth-server/routes.ts'
import { endGrantsOf } from '../features/oauth-server/sql.ts'
import { createOrganizations } from '../features/organizations/routes.ts'
import { createPasskeys } from '../features/passkeys/routes.ts'
import { dropPasskeys, dropPasskeysSince } from '../features/passkeys/webauthn/sql.ts'
import { createSignIn } from '../features/sign-in/routes.ts'
import { forgiveFailures, unlinkSince } from '../features/sign-in/sql.ts'
import { createUsers } from '../features/users/routes.ts'
import { createAddressProof } from '../identity/email-ownership.ts'
import { createMailLinks } from '../identity/mail-links.ts'
import { createPasswords } from '../identity/password-hashing.ts'
import { endSessionsOf } from '../identity/users.ts'
import { expiredOfIdentity } from './cleanups.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Messages } from './messages.ts'
import type { AppOptions } from './options.ts'
import { passwordNote } from './password-note.ts'
import type { Platform } from './platform.ts'
import { SecretKeeper, secretBoxOf } from './secrets.ts'

/** Statements that drop all credentials of an account except the password. */
const dropCredentials = (userId: string): Sql[] => [
  dropFactors(userId),
  dropPasskeys(userId),
  revokeKeysOf(userId),
  endGrantsOf(userId),
]
/** Statements that end all sessions and grants of a user. */
const endAccess = (userId: string): Sql[] => [endSessionsOf(userId), endGrantsOf(userId)]
/** The same, with the API keys that the user made, and its failed attempts forgotten. */
const endOwnAccess = (userId: string): Sql[] => [...endAccess(userId), revokeOwnKeysOf(userId), forgiveFailures(userId)]

/** Statements that drop what was added to an account since a moment and signs in. */
const dropAddedSince = (userId: string, since: string): Sql[] => [
  dropFactorsSince(userId, since),
  dropPasskeysSince(userId, since),
  unlinkSince(userId, since),
]

/** Features that identify callers: accounts, sessions, keys and the admin. */
export async function createIdentity(
  config: Config,
  platform: Platform,
  { email, sms }: Messages,
  lifecycle: Lifecycle,
  { logEntries, askAllWorkers }: Required<Pick<AppOptions, 'logEntries' | 'askAllWorkers'>>,
) {
  const { db, schema, observe, gateways, publicUrl } = platform
  const appName = config.server.app_name
  const publicBaseUrl = (): string => publicUrl.get()
  const [revocations, rootSecret] = await Promise.all([
    Revocations.open({ db, observe }).then((opened) => lifecycle.own(opened)),
    loadRootSecret(db, config.auth.jwt_secret, platform.secretFile),
  ])
  /** Applies a revocation at once in this process; other processes read it from the database. */
  const revoked =
    (kind: Revocation['kind']) =>
    (ids: string | readonly string[]): void =>
      revocations.apply([ids].flat().map((subject) => ({ kind, subject })))
  /** Drops what a committed change ended. If it fails, nothing cached is trusted any longer than a second. */
  const dropEnded = (): Promise<void> => revocations.refresh().catch(() => undefined)
  const passwords = lifecycle.own(createPasswords(config.auth))
  /** A key per purpose, which does not change when the token keys are rotated. */
  const keyFor = (purpose: string): Buffer => deriveKey(rootSecret, '', purpose)
  const box = secretBoxOf(config.auth, rootSecret)
  const secrets = new SecretKeeper({ db, box, observe })

  const apiKeys = createApiKeys({ db, onRevoked: revoked('key') })
  const impersonation = createImpersonation({ db, keyById: (id) => apiKeys.keyById(id) })
  const saved = createSavedItems({ db })
  const admin = createAdmin({
    db,
    config: config.admin,
    passwords,
    // With an embedded database the root secret is in the data directory too, where a note would make guesses cheap.
    note: config.database.url === '' ? undefined : passwordNote(config.data_dir, keyFor('admin password')),
    observe,
    minPasswordLength: config.auth.min_password_length,
    dropEnded,
    box,
    appName,
    warnings: () => [
      ...platform.warnings(),
      ...secrets.warnings(),
      ...unknownTables(schema.read(), config.audit.tables),
    ],
    logs: { size: config.log.buffer_size, entries: askAllWorkers('logs', logEntries) },
    openScript: async (role) => {
      if (role !== 'owner') throw new AppError('insufficient_role', 'SQL needs the role owner')
      return new Script(await db.openConnection())
    },
    openScriptAs: async (who) => {
      const opened = db.openAs(who)
      if (!opened) throw new AppError('unavailable', 'the database has no login for callers')
      return new Script(await opened)
    },
    identityFor: impersonation.identityFor,
    savedQuery: (who, id) => saved.queryFor(who, id),
    reloadSchema: async () => void (await schema.reload()),
    schemas: config.api.schemas,
  })
  const { enabled: isOAuthServer, ...oauthLives } = config.auth.oauth_provider
  const grants = new Grants({
    db,
    config: oauthLives,
    onRevoked: revoked('oauth_token'),
  })
  const apps = createApps({ db, endWithApp: revokeClientsOfApp, dropEnded })
  const auth = createAuth({
    db,
    revocations,
    config: config.auth,
    rootSecret,
    expired: expiredOfIdentity,
    observe,
    resolveApiKey: apiKeys.resolveApiKey,
    resolveAdminToken: admin.tokens.resolve,
    resolveImpersonation: impersonation.resolve,
    ...(isOAuthServer && { resolveOAuthToken: (token: string) => grants.resolve(token) }),
  })
  const shared = {
    db,
    config: config.auth,
    settings: auth.settings,
    appName,
    publicBaseUrl,
    passwords,
    startSession: auth.startSession,
    mailLink: createMailLinks({ config: config.auth, publicBaseUrl, queueMail: email.queueMail }),
    proveAddress: createAddressProof(dropCredentials),
    onRevoked: revoked('user'),
    endOthers: async (tx: Tx, { id, sessionId }: UserIdentity) =>
      (await tx.rows<{ id: string }>(endOtherSessions(id, sessionId))).map((session) => session.id),
    onSessionsEnded: revoked('session'),
    queueMail: email.queueMail,
    wakeMail: email.wakeMail,
    queueSms: sms.queueSms,
    wakeSms: sms.wakeSms,
  }
  const accounts = createAccounts({ ...shared, endAccess: endOwnAccess, dropAddedSince })
  const signIn = createSignIn({ ...shared, smsCodeKey: keyFor('sms code'), outgoing: gateways, endAccess })
  const mfa = createMfa({ ...shared, stepUp: auth.stepUp, codeKey: keyFor('mfa code'), box })
  const passkeys = createPasskeys({
    ...shared,
    decoyKey: keyFor('passkey decoy'),
    observe,
    verification: mfa.verification,
  })
  const organizations = createOrganizations({ ...shared, tokenOf: auth.tokenOf })
  const oauthServer = createOAuthServer({
    db,
    schema,
    grants,
    dropEnded,
    enabled: isOAuthServer,
    appName,
    publicBaseUrl,
    hasPasskeys: () => auth.settings().webauthn_enabled,
  })
  const users = createUsers({
    ...shared,
    authEnabled: config.auth.enabled,
    minPasswordLength: config.auth.min_password_length,
    deleteUser,
    endAccess: endOwnAccess,
  })
  return {
    admin,
    apps,
    identify: auth.identify,
    revocations,
    passwords,
    box,
    keyFor,
    features: [
      ...[admin, impersonation, saved, secrets, auth, users, apiKeys, apps, oauthServer],
      ...(config.auth.enabled ? [accounts, signIn, mfa, passkeys, organizations] : []),
    ],
  }
}

export type IdentityGroup = Awaited<ReturnType<typeof createIdentity>>
