import { createHash, randomUUID } from 'node:crypto'
import { notFound } from '../../core/errors.ts'
import { ON_BEHALF, type UserIdentity } from '../../core/identity.ts'
import { hasScope, isIdentityScope } from '../../core/scope.ts'
import { equalInConstantTime, randomHex, sha256 } from '../../core/secret.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { requireOwnFactor } from '../../identity/second-factor.ts'
import { lockCaller, lockOwner } from '../../identity/users.ts'
import { type AuthorizationRequest, orderedScope, tableList } from './authorization-request.ts'
import { isRedirectUri, isVerifier, mayGrant } from './authorize-checks.ts'
import { type Client, type ClientRights, lockClient } from './client-sql.ts'
import { countPoll, type DeviceCode, lockDeviceCode, spendDeviceCode, userOfDevice } from './device-sql.ts'
import { invalidClient, type OAuthError, refuse, usedBefore } from './errors.ts'
import { idTokenClaims, userClaims } from './openid.ts'
import * as q from './sql.ts'

export type OAuthConfig = {
  access_token_duration: number
  refresh_token_duration: number
  auth_code_duration: number
}

/** RFC 6749, section 5.1. */
export type TokenAnswer = {
  access_token: string
  token_type: 'Bearer'
  expires_in: number
  refresh_token?: string
  /** OpenID Connect Core, section 3.1.3.3. */
  id_token?: string
  scope: string
}

type Form = Readonly<Record<string, string>>
/** The ids of tokens that ended; without new tokens, because a code or refresh token was used twice. */
type Exchanged = { tokens?: TokenAnswer; ended: string[] }

/** Remembered consents and codes of a user, and grants of a user to one client; the oldest make room. */
const [MAX_CONSENTS, MAX_CODES, MAX_GRANTS] = [100, 100, 100]

type GrantDeps = {
  db: Db
  config: OAuthConfig
  /** Drops the tokens from this process's cache at once; other processes read the revocation from the database. */
  onRevoked: (tokenIds: readonly string[]) => void
  issuer: () => string
  /** Signs the claims of an ID token. */
  signIdToken: (claims: object) => string
}

/** What tokens are issued of. */
type Issue = Pick<q.NewGrant, 'id' | 'userId' | 'scope' | 'signIn'> & {
  client: Pick<Client, 'id' | 'clientId'>
  by: 'code' | 'device' | 'client' | 'refresh'
  nonce: string | null
}

/** Issues, exchanges, rotates and ends codes and tokens. Using a code or refresh token twice ends its whole grant. */
export class Grants {
  readonly #deps: GrantDeps

  constructor(deps: GrantDeps) {
    this.#deps = deps
  }

  /** Undefined unless the user consented to the same before. `spend` removes what may be used once, as in `consent`. */
  async codeOfConsent(
    user: UserIdentity,
    client: Client,
    request: AuthorizationRequest,
    spend?: Sql,
  ): Promise<string | undefined> {
    const consent = q.isConsented(user.id, client, request)
    if ((await this.#deps.db.run(ON_BEHALF, consent)) === 0) return undefined
    return this.#deps.db.tx(ON_BEHALF, async (tx) => {
      await lockCaller(tx, user)
      const terms = await tx.fly(q.termsOf(user.id, client, request))
      return terms === null ? undefined : this.#issueCode(tx, user, client, request, JSON.parse(terms), spend)
    })
  }

  async consent(
    user: UserIdentity,
    client: Client,
    request: AuthorizationRequest,
    terms: q.Terms = q.NO_TERMS,
    spend?: Sql,
  ): Promise<string> {
    return this.#deps.db.tx(ON_BEHALF, async (tx) => {
      await lockCaller(tx, user)
      return this.#issueCode(tx, user, client, request, terms, spend)
    })
  }

  /** A stolen first factor must not get tokens that outlive its session. */
  async #issueCode(
    tx: Tx,
    user: UserIdentity,
    client: Client,
    request: AuthorizationRequest,
    terms: q.Terms,
    spend: Sql | undefined,
  ): Promise<string> {
    await requireOwnFactor(tx, user)
    if (spend && (await tx.run(spend)) === 0) throw usedBefore()
    const code = randomHex(32)
    await tx.run(q.rememberConsent(user.id, client, request, terms))
    await tx.run(q.forgetConsents(user.id, MAX_CONSENTS))
    await tx.run(q.forgetCodes(user.id, MAX_CODES - 1))
    await tx.run(q.insertCode(sha256(code), user, client, request, terms, this.#deps.config.auth_code_duration))
    return code
  }

  async list(userId: string): Promise<string> {
    return (await this.#deps.db.fly(ON_BEHALF, q.grantsOf(userId))) ?? '[]'
  }

  /** By the user who granted it. */
  async withdraw(user: UserIdentity, id: string): Promise<void> {
    const ended = await this.#deps.db.tx(ON_BEHALF, async (tx) => {
      await lockCaller(tx, user)
      const client = await tx.fly(q.clientOfGrant(id, user.id))
      if (client === null) throw notFound('grant not found', 'grant_not_found')
      return idsOf(await tx.rows(q.withdrawGrant(id, user.id, client)))
    })
    this.#deps.onRevoked(ended)
  }

  /** RFC 6749, section 4.1.3, and RFC 7636, section 4.6. */
  async redeemCode(client: Client, form: Form): Promise<TokenAnswer> {
    const code = required(form, 'code')
    const redirectUri = required(form, 'redirect_uri')
    const verifier = required(form, 'code_verifier')
    const hash = sha256(code)
    return this.#exchange(client, q.userOfCode(hash), async (tx, rights) => {
      const [found] = await tx.rows<q.Code>(q.lockCode(hash))
      if (!found || found.client !== client.id) throw invalidGrant('unknown or expired code')
      if (found.isUsed) return { ended: await endGrant(tx, found.grantId) }
      // RFC 6749, section 4.1.3: identical to that of the request, even if the registered one differs in its port.
      if (found.redirectUri !== redirectUri) throw invalidGrant('redirect_uri differs from the one of the code')
      if (!isVerifier(verifier) || !equalInConstantTime(challengeOf(verifier), found.challenge)) {
        throw invalidGrant('code_verifier does not fit the code')
      }
      requireSameResource(form, found.resource)
      const { userId, scope, tables, resource, auto, release, until, signIn, nonce } = found
      if (!mayGrant(rights, scope) || !isRedirectUri(rights, redirectUri)) throw invalidGrant(TAKEN)
      const id = randomUUID()
      await tx.run(q.spendCode(hash, id))
      const terms = { auto, release, until }
      const grant = { id, client: client.id, userId, scope, tables, resource, terms, signIn }
      if (hasScope(scope, 'openid')) await keepLogin(tx, grant)
      const tokens = await this.#issue(tx, grant, { client, by: 'code', nonce })
      return { tokens, ended: idsOf(await tx.rows(q.endOldGrants(userId, client.id, MAX_GRANTS))) }
    })
  }

  /** RFC 6749, section 4.4. */
  async forClient(client: Client, form: Form): Promise<TokenAnswer> {
    if (client.clientType === 'public') throw refuse('unauthorized_client', 'public clients cannot act for themselves')
    const scope = orderedScope(required(form, 'scope'))
    const tables = tableList(form['allowed_tables'])
    // An agent is a user.
    if (form['resource']) throw refuse('invalid_target', 'clients that act for themselves have no resource')
    if (scope.split(' ').some(isIdentityScope)) throw refuse('invalid_scope', 'a client is no user')
    const grant = {
      id: randomUUID(),
      client: client.id,
      userId: null,
      scope,
      tables,
      resource: '',
      terms: q.NO_TERMS,
      signIn: null,
    }
    return this.#exchange(client, undefined, async (tx, rights) => {
      if (!mayGrant(rights, scope)) throw refuse('invalid_scope', 'scope is not one that this client may ask for')
      return { tokens: await this.#issue(tx, grant, { client, by: 'client', nonce: null }), ended: [] }
    })
  }

  /** RFC 8628, section 3.4: of parallel polls one gets the tokens. */
  async redeemDeviceCode(client: Client, form: Form): Promise<TokenAnswer> {
    const hash = sha256(required(form, 'device_code'))
    // Kept although the poll is refused.
    const refusal: { error?: OAuthError } = {}
    const { tokens, ended } = await this.#inExchange(client, userOfDevice(hash), async (tx, rights, isOwnerLocked) => {
      const [found] = await tx.rows<DeviceCode>(lockDeviceCode(hash))
      if (!found || found.client !== client.id || found.isUsed) throw invalidGrant('unknown or used device code')
      if (found.isExpired) throw refuse('expired_token', 'the device code has expired')
      if (found.decision === 'deny') throw refuse('access_denied', 'the user denied the request')
      const { userId, scope, tables, signIn } = found
      // Decided after this poll looked for the account: what ends its access would not wait for these tokens.
      if (found.decision === null || userId === null || !isOwnerLocked) {
        await tx.run(countPoll(hash, found.isEarly))
        refusal.error = found.isEarly
          ? refuse('slow_down', 'wait five seconds longer between two polls')
          : refuse('authorization_pending', 'the user has not decided yet')
        return { ended: [] }
      }
      if (!mayGrant(rights, scope)) throw invalidGrant(TAKEN)
      await tx.run(spendDeviceCode(hash))
      const grant = {
        id: randomUUID(),
        client: client.id,
        userId,
        scope,
        tables,
        resource: '',
        terms: q.NO_TERMS,
        signIn,
      }
      const tokens = await this.#issue(tx, grant, { client, by: 'device', nonce: null })
      return { tokens, ended: idsOf(await tx.rows(q.endOldGrants(userId, client.id, MAX_GRANTS))) }
    })
    this.#deps.onRevoked(ended)
    if (tokens) return tokens
    throw refusal.error ?? invalidGrant('unknown or used device code')
  }

  /** RFC 6749, section 6; every use rotates (RFC 9700, section 4.14.2). */
  async refresh(client: Client, form: Form): Promise<TokenAnswer> {
    const hash = sha256(required(form, 'refresh_token'))
    const scope = form['scope'] ? orderedScope(form['scope']) : undefined
    return this.#exchange(client, q.userOfRefreshToken(hash), async (tx, rights) => {
      const [found] = await tx.rows<q.RefreshToken>(q.lockRefreshToken(hash))
      if (!found || found.client !== client.id) throw invalidGrant('unknown or expired refresh token')
      if (found.isRotated) return { ended: await endGrant(tx, found.grantId) }
      if (scope !== undefined && scope !== found.scope) {
        throw refuse('invalid_scope', 'the scope of a grant does not change')
      }
      if (!mayGrant(rights, found.scope)) throw invalidGrant(TAKEN)
      requireSameResource(form, found.resource)
      await tx.run(q.rotate(hash))
      const { grantId: id, userId, signIn } = found
      const issue = { id, userId, scope: found.scope, signIn, client, by: 'refresh', nonce: null } as const
      return { tokens: await this.#tokens(tx, issue), ended: [] }
    })
  }

  /** RFC 7009: the whole grant of a refresh token, an access token alone. `client` null: any holder may revoke it. */
  async revoke(token: string, client: Client | null): Promise<void> {
    const hash = sha256(token)
    const ended = await this.#deps.db.tx(ON_BEHALF, async (tx) => {
      await tx.run(lockOwner(q.userOfRefreshToken(hash)))
      const gone = idsOf(await tx.rows(q.endAccessToken(hash, client?.id ?? null)))
      const [grant] = await tx.rows<{ id: string }>(q.grantOfRefreshToken(hash, client?.id ?? null))
      return [...gone, ...(grant ? await endGrant(tx, grant.id) : [])]
    })
    this.#deps.onRevoked(ended)
  }

  /**
   * Runs `work` with the account of `user` and the client locked, in this order, and the client's rights of now. Commits
   * the end of a stolen grant before throwing the refusal.
   */
  async #exchange(
    client: Client,
    user: Sql | undefined,
    work: (tx: Tx, rights: ClientRights) => Promise<Exchanged>,
  ): Promise<TokenAnswer> {
    const { tokens, ended } = await this.#inExchange(client, user, work)
    this.#deps.onRevoked(ended)
    if (tokens) return tokens
    throw invalidGrant('the token has been used before; everything it led to has ended')
  }

  #inExchange(
    client: Client,
    user: Sql | undefined,
    work: (tx: Tx, rights: ClientRights, isOwnerLocked: boolean) => Promise<Exchanged>,
  ): Promise<Exchanged> {
    return this.#deps.db.tx(ON_BEHALF, async (tx) => {
      const isOwnerLocked = user !== undefined && (await tx.run(lockOwner(user))) > 0
      const rights = await tx.fly(lockClient(client.id))
      if (rights === null) throw invalidClient()
      return work(tx, JSON.parse(rights) as ClientRights, isOwnerLocked)
    })
  }

  async #issue(tx: Tx, grant: q.NewGrant, by: Pick<Issue, 'client' | 'by' | 'nonce'>): Promise<TokenAnswer> {
    await tx.run(q.insertGrant(grant))
    return this.#tokens(tx, { ...grant, ...by })
  }

  async #tokens(tx: Tx, issue: Issue): Promise<TokenAnswer> {
    const { id: grantId, client, scope, by } = issue
    await tx.run(q.countGrant(client.id, by === 'code'))
    const { access_token_duration, refresh_token_duration } = this.#deps.config
    const [state] = await tx.rows<q.GrantState>(q.grantState(grantId))
    if (state?.isDisabled) throw invalidGrant('the account is disabled')
    // No token outlives the end that the user chose.
    const left = state?.seconds ?? Number.POSITIVE_INFINITY
    if (left < 1) throw invalidGrant('the access has ended')
    const seconds = Math.min(access_token_duration, left)
    const refreshSeconds = Math.min(refresh_token_duration, left)
    const [access, refresh] = [`svc_at_${randomHex(32)}`, `svc_rt_${randomHex(32)}`]
    await tx.run(q.insertAccessToken({ id: randomUUID(), hash: sha256(access), grantId, seconds }))
    const renews = by !== 'client' && (!hasScope(scope, 'openid') || hasScope(scope, 'offline_access'))
    if (renews) await tx.run(q.insertRefreshToken({ hash: sha256(refresh), grantId, seconds: refreshSeconds }))
    const idToken = hasScope(scope, 'openid') ? await this.#idToken(tx, issue) : undefined
    return {
      access_token: access,
      token_type: 'Bearer',
      expires_in: seconds,
      ...(renews && { refresh_token: refresh }),
      ...(idToken !== undefined && { id_token: idToken }),
      scope,
    }
  }

  async #idToken(tx: Tx, { userId, scope, signIn, client, nonce }: Issue): Promise<string | undefined> {
    if (userId === null || signIn === null) return undefined
    const claims = await tx.fly(userClaims(userId))
    if (claims === null) throw invalidGrant('the user is gone')
    const by = { issuer: this.#deps.issuer(), clientId: client.clientId, userId, scope, nonce }
    return this.#deps.signIdToken(idTokenClaims(by, signIn, JSON.parse(claims)))
  }
}

/** The client hears of the end of the session; a code of a session that has ended is no sign-in. */
async function keepLogin(tx: Tx, { client, userId, signIn }: q.NewGrant): Promise<void> {
  const session = signIn?.sessionId
  if (userId === null || !session) return
  if ((await tx.run(q.keepLogin(session, client, userId))) === 0) throw invalidGrant('the user has signed out')
}

/** RFC 8707, section 2.2: left out, it is that of the grant. */
function requireSameResource(form: Form, resource: string): void {
  const wanted = form['resource']
  if (wanted !== undefined && wanted !== '' && wanted !== resource) {
    throw refuse('invalid_target', 'resource differs from the one of the grant')
  }
}

const TAKEN = 'the client may no longer have what the user granted'
const invalidGrant = (description: string) => refuse('invalid_grant', description)

async function endGrant(tx: Tx, id: string | null): Promise<string[]> {
  if (id === null) return []
  return idsOf(await tx.rows(q.endGrant(id)))
}

const idsOf = (tokens: object[]): string[] => (tokens as { id: string }[]).map(({ id }) => id)

const challengeOf = (verifier: string): string => createHash('sha256').update(verifier).digest('base64url')

export function required(form: Form, name: string): string {
  const value = form[name]
  if (!value) throw refuse('invalid_request', `${name} is required`)
  return value
}
