import type { Config } from '../config/config.ts'
import { AppError } from '../core/errors.ts'
import type { UserIdentity } from '../core/identity.ts'
import { deriveKey } from '../core/secret.ts'
import type { Tx } from '../db/db.ts'
import { outsideFunctionNames } from '../db/script/dry-script.ts'
import { Script } from '../db/script/script.ts'
import type { Sql } from '../db/sql.ts'
import { createAccounts } from '../features/accounts/routes.ts'
import { deleteUser } from '../features/accounts/sql.ts'
import { createAdmin } from '../features/admin/routes.ts'
import { createApiKeys } from '../features/api-keys/routes.ts'
import { revokeKeysOf, revokeOwnKeysOf } from '../features/api-keys/sql.ts'
import { createApps } from '../features/apps/routes.ts'
import { unknownTables } from '../features/audit/data-audit.ts'
import { createIdentify } from '../features/auth/identify.ts'
import { deviceNotices } from '../features/auth/new-device.ts'
import type { Revocation } from '../features/auth/revocations.ts'
import { createAuth } from '../features/auth/routes.ts'
import { endOtherSessions } from '../features/auth/sql.ts'
import { createSavedItems } from '../features/dashboard/saved-items.ts'
import { createImpersonation } from '../features/impersonation/routes.ts'
import { createForeigners } from '../features/issuers/accounts.ts'
import { createOwnIdentities } from '../features/issuers/identities.ts'
import { createIssuers } from '../features/issuers/issuers.ts'
import { identityRoutes } from '../features/issuers/routes.ts'
import { createMfa } from '../features/mfa/routes.ts'
import { dropFactors, dropFactorsSince } from '../features/mfa/sql.ts'
import { AccessTokens } from '../features/oauth-server/access-tokens.ts'
import { ClientDocuments } from '../features/oauth-server/client-documents.ts'
import { revokeClientsOfApp } from '../features/oauth-server/clients.ts'
import { Grants } from '../features/oauth-server/grants.ts'
import { createOAuthServer } from '../features/oauth-server/routes.ts'
import { endGrantsOf } from '../features/oauth-server/sql.ts'
import { createOrganizations } from '../features/organizations/routes.ts'
import { createPasskeys } from '../features/passkeys/routes.ts'
import { dropPasskeys, dropPasskeysSince } from '../features/passkeys/webauthn/sql.ts'
import { createSignIn } from '../features/sign-in/routes.ts'
import { forgiveFailures, linkAnonymous, unlinkSince } from '../features/sign-in/sql.ts'
import { createUsers } from '../features/users/routes.ts'
import { createOutgoing } from '../http/out/outgoing.ts'
import { tooMany } from '../http/rate-limit.ts'
import { addressSubject } from '../http/wire/client-address.ts'
import { createCaptcha } from '../identity/captcha.ts'
import { createAddressProof } from '../identity/email-ownership.ts'
import { invalidToken } from '../identity/errors.ts'
import { createPasswordsForOnce } from '../identity/hashing-once.ts'
import { endLinked } from '../identity/linked-identities.ts'
import { createMailLinks } from '../identity/mail-links.ts'
import { createPasswords } from '../identity/password-hashing.ts'
import { createPasswordPolicy } from '../identity/password-rules.ts'
import { endSessionsOf } from '../identity/users.ts'
import { createRefusalLog } from '../identity/webauthn/refusal-log.ts'
import { relyingPartyOf } from '../identity/webauthn/relying-party.ts'
import { expiredOfIdentity } from './cleanups.ts'
import { shortOfSpace } from './disk-space.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Messages } from './messages.ts'
import type { AppOptions } from './options.ts'
import { passwordNote } from './password-note.ts'
import type { Platform } from './platform.ts'
import { SecretKeeper, type Secrets } from './secrets.ts'

/** Statements that drop all credentials of an account except the password. */
export const dropCredentials = (userId: string): Sql[] => [
  dropFactors(userId),
  dropPasskeys(userId),
  revokeKeysOf(userId),
  endGrantsOf(userId),
]
/** Statements that end all sessions and grants of a user. */
const endAccess = (userId: string): Sql[] => [endSessionsOf(userId), endGrantsOf(userId)]
/** The same, with what sessions of the user made and linked, and its failed attempts forgotten. */
const endOwnAccess = (userId: string): Sql[] => [
  ...endAccess(userId),
  revokeOwnKeysOf(userId),
  endLinked(userId),
  forgiveFailures(userId),
]

/** Statements that drop what was added to an account since a moment and signs in. */
const dropAddedSince = (userId: string, since: string): Sql[] => [
  dropFactorsSince(userId, since),
  dropPasskeysSince(userId, since),
  unlinkSince(userId, since),
]

/** Features that identify callers: accounts, sessions, keys and the admin. */
export function createIdentity(
  config: Config,
  platform: Platform,
  { rootSecret, box, revocations }: Secrets,
  { email, sms, hooks }: Messages,
  lifecycle: Lifecycle,
  {
    logEntries,
    askAllWorkers,
    moreWarnings,
    verifiedBackupAt,
  }: Required<Pick<AppOptions, 'logEntries' | 'askAllWorkers'>> & {
    moreWarnings: () => readonly string[]
    verifiedBackupAt: () => string | null | undefined
  },
) {
  const { db, schema, observe, gateways, publicUrl } = platform
  const appName = config.server.app_name
  const publicBaseUrl = (): string => publicUrl.get()
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
  const secrets = new SecretKeeper({ db, box, observe })

  const logsOfAll = askAllWorkers('logs', logEntries)
  const apiKeys = createApiKeys({ db, onRevoked: revoked('key') })
  const impersonation = createImpersonation({ db, keyById: (id) => apiKeys.keyById(id) })
  const saved = createSavedItems({ db })
  const admin = createAdmin({
    db,
    config: config.admin,
    passwords,
    passwordsAtStart: createPasswordsForOnce(config.auth),
    // With an embedded database the root secret is in the data directory too, where a note would make guesses cheap.
    note: config.database.url === '' ? undefined : passwordNote(config.data_dir, keyFor('admin password')),
    observe,
    passwordRules: config.auth,
    dropEnded,
    box,
    appName,
    warnings: async () => [
      ...platform.warnings(),
      ...(await shortOfSpace(config)),
      ...secrets.warnings(),
      ...moreWarnings(),
      ...unknownTables(schema.read(), config.audit.tables),
    ],
    isDrill: platform.isDrill,
    verifiedBackupAt,
    logs: { size: config.log.buffer_size, entries: logsOfAll },
    openScript: async (role) => {
      if (role === 'owner') return new Script(await db.openConnection())
      const login = platform.adminLogins[role]
      if (!login) throw new AppError('insufficient_role', `the database has no login for SQL of the role ${role}`)
      return new Script(await db.openConnection(login), { reader: login.user })
    },
    openScriptAs: async (who) => {
      const opened = db.openAs(who)
      if (!opened) throw new AppError('unavailable', 'the database has no login for callers')
      return new Script(await opened, { caller: { key: platform.logKey, outside: () => outsideFunctionNames(db) } })
    },
    identityFor: impersonation.identityFor,
    savedQuery: (who, id) => saved.queryFor(who, id),
    reloadSchema: async () => void (await schema.reload()),
    relyingParty: () => relyingPartyOf({ publicBaseUrl, appName, origins: config.auth.webauthn_origins }),
    onRefused: createRefusalLog(observe),
    schemas: config.api.schemas,
  })
  const { enabled: isOAuthServer, registration: hasRegistration, ...oauthLives } = config.auth.oauth_provider
  const grants = new Grants({
    db,
    config: oauthLives,
    onRevoked: revoked('oauth_token'),
    issuer: publicBaseUrl,
    signIdToken: (claims) => auth.clientTokens.sign('JWT', claims),
  })
  const accessTokens = new AccessTokens({ db, issuer: publicBaseUrl })
  const apps = createApps({ db, endWithApp: revokeClientsOfApp, dropEnded })
  const readForeignToken = createIssuers(config.auth.issuers, gateways)
  const foreigners = createForeigners({ db, read: readForeignToken, beforeSignUp: hooks.beforeSignUp })
  const auth = createAuth({
    db,
    revocations,
    config: config.auth,
    rootSecret,
    publicBaseUrl,
    box,
    noticeDevice: config.auth.new_device_mail
      ? deviceNotices({ db, queueMail: email.queueMail, wakeMail: email.wakeMail, appName, observe })
      : () => {},
    hooks,
    expired: expiredOfIdentity,
    observe,
    resolveApiKey: apiKeys.resolveApiKey,
    resolveAdminToken: admin.tokens.resolve,
    resolveImpersonation: impersonation.resolve,
    ...(config.auth.issuers.length > 0 && { resolveForeignToken: foreigners.resolve }),
    ...(isOAuthServer && { resolveOAuthToken: (token: string) => accessTokens.resolve(token) }),
  })
  const shared = {
    db,
    config: config.auth,
    settings: auth.settings,
    appName,
    publicBaseUrl,
    passwords,
    requireGoodPassword: createPasswordPolicy(config.auth, gateways),
    requireCaptcha: createCaptcha(config.auth, gateways),
    startSession: auth.startSession,
    beforeSignUp: hooks.beforeSignUp,
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
  const accounts = createAccounts({
    ...shared,
    endAccess: endOwnAccess,
    dropAddedSince,
    hasAgents: config.agents.enabled,
  })
  const identities = createOwnIdentities({
    ...shared,
    read: readForeignToken,
    linkAnonymous,
    onKeyRevoked: revoked('key'),
  })
  const signIn = createSignIn({ ...shared, smsCodeKey: keyFor('sms code'), outgoing: gateways, endAccess })
  const mfa = createMfa({ ...shared, stepUp: auth.stepUp, codeKey: keyFor('mfa code'), box })
  const passkeys = createPasskeys({
    ...shared,
    decoyKey: keyFor('passkey decoy'),
    observe,
    verification: mfa.verification,
  })
  const organizations = createOrganizations({ ...shared, tokenOf: auth.tokenOf })
  /** So many a minute for an address. */
  const strangers = (name: string, max: number) => async (ip: string) => {
    const allowance = await platform.limiter.takeToken(name, addressSubject(ip), { max, seconds: 60 })
    if (!allowance.allowed) throw tooMany(allowance)
  }
  const agentResource = (): string => `${publicBaseUrl()}/api/mcp`
  const allowsPrivateClients = config.agents.allow_private_clients
  const toClients = lifecycle.own(createOutgoing({ allowPrivateNetworks: allowsPrivateClients }))
  const documents = new ClientDocuments({
    db,
    outgoing: toClients,
    countDocument: strangers('client_document', 20),
  })
  /** For /api/mcp: tokens of that resource, and the admin's, to be refused with a reason. */
  const identifyAgent = createIdentify({
    db,
    authEnabled: config.auth.enabled,
    revocations,
    keys: () => {
      throw invalidToken()
    },
    resolveAdminToken: admin.tokens.resolve,
    ...(config.agents.api_keys && { resolveApiKey: apiKeys.resolveApiKey }),
    ...(isOAuthServer && { resolveOAuthToken: (token: string) => accessTokens.resolveAgent(token, agentResource()) }),
  })
  const oauthServer = createOAuthServer({
    db,
    schema,
    grants,
    accessTokens,
    tokens: auth.clientTokens,
    endSession: auth.endSession,
    outgoing: toClients,
    allowsPrivateClients,
    queue: platform.queue,
    observe,
    cookieKey: keyFor('session cookie of pages'),
    userCodeKey: keyFor('device user code'),
    dropEnded,
    enabled: isOAuthServer,
    appName,
    publicBaseUrl,
    hasPasskeys: () => auth.settings().webauthn_enabled,
    hasRegistration,
    agents: config.agents.enabled ? { resource: agentResource, documents } : undefined,
    countRegistration: strangers('oauth_registration', 120),
    countPushed: strangers('oauth_pushed', 300),
    countDevice: strangers('oauth_device', 120),
  })
  const users = createUsers({
    ...shared,
    authEnabled: config.auth.enabled,
    deleteUser,
    endAccess: endOwnAccess,
  })
  return {
    admin,
    apps,
    identify: auth.identify,
    authSettings: auth.settings,
    identifyAgent,
    logsOfAll,
    revocations,
    passwords,
    box,
    rootSecret,
    keyFor,
    features: [
      ...[admin, impersonation, saved, secrets, auth, users, apiKeys, apps, oauthServer],
      ...(config.auth.enabled
        ? [accounts, signIn, mfa, passkeys, organizations, { routes: identityRoutes(identities, revocations.clock) }]
        : []),
    ],
  }
}

export type IdentityGroup = ReturnType<typeof createIdentity>
