import { createHash, randomUUID } from 'node:crypto'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import { equalInConstantTime, randomHex, sha256 } from '../../core/secret.ts'
import type { Db, Tx } from '../../db/db.ts'
import { type AuthorizationRequest, tableList } from './authorization-request.ts'
import { isVerifier, mayGrant, type OAuthScope } from './authorize-checks.ts'
import { invalidClient, refuse } from './errors.ts'
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
  scope: string
}

type Form = Readonly<Record<string, string>>
/** Tokens, or the ids of tokens that ended because a code or refresh token was used twice. */
type Exchanged = { tokens: TokenAnswer } | { ended: string[] }

type GrantDeps = {
  db: Db
  config: OAuthConfig
  /** Drops the tokens from this process's cache at once; other processes read the revocation from the database. */
  onRevoked: (tokenIds: readonly string[]) => void
}

/** Issues, exchanges, rotates and ends codes and tokens. Using a code or refresh token twice ends its whole grant. */
export class Grants {
  readonly #deps: GrantDeps

  constructor(deps: GrantDeps) {
    this.#deps = deps
  }

  async isConsented(userId: string, client: q.Client, request: AuthorizationRequest): Promise<boolean> {
    const [found] = await this.#deps.db.rows<{ yes: boolean }>(SYSTEM, q.isConsented(userId, client, request))
    return found?.yes === true
  }

  async issueCode(userId: string, client: q.Client, request: AuthorizationRequest): Promise<string> {
    const code = randomHex(32)
    await this.#deps.db.run(SYSTEM, [
      q.rememberConsent(userId, client, request),
      q.insertCode(sha256(code), userId, client, request, this.#deps.config.auth_code_duration),
    ])
    return code
  }

  /** RFC 6749, section 4.1.3, and RFC 7636, section 4.6. */
  async redeemCode(client: q.Client, form: Form): Promise<TokenAnswer> {
    const code = required(form, 'code')
    const redirectUri = required(form, 'redirect_uri')
    const verifier = required(form, 'code_verifier')
    const hash = sha256(code)
    return this.#exchange(async (tx) => {
      const [found] = await tx.rows<q.Code>(q.lockCode(hash))
      if (!found || found.client !== client.id) throw invalidGrant('unknown or expired code')
      if (found.isUsed) return { ended: await endGrant(tx, found.grantId) }
      // RFC 6749, section 4.1.3: identical to that of the request, even if the registered one differs in its port.
      if (found.redirectUri !== redirectUri) throw invalidGrant('redirect_uri differs from the one of the code')
      if (!isVerifier(verifier) || !equalInConstantTime(challengeOf(verifier), found.challenge)) {
        throw invalidGrant('code_verifier does not fit the code')
      }
      const { userId, scope, tables } = found
      const id = randomUUID()
      await tx.run(q.spendCode(hash, id))
      return { tokens: await this.#issue(tx, { id, client: client.id, userId, scope, tables }, 'code') }
    })
  }

  /** RFC 6749, section 4.4. */
  async forClient(client: q.Client, form: Form): Promise<TokenAnswer> {
    if (client.clientType === 'public') throw refuse('unauthorized_client', 'public clients cannot act for themselves')
    const scope = required(form, 'scope')
    if (!mayGrant(client, scope)) throw refuse('invalid_scope', 'scope is not one that this client may ask for')
    const tables = tableList(form['allowed_tables'])
    const grant = { id: randomUUID(), client: client.id, userId: null, scope, tables }
    return this.#exchange(async (tx) => ({ tokens: await this.#issue(tx, grant, 'client') }))
  }

  /** RFC 6749, section 6; every use rotates (RFC 9700, section 4.14.2). */
  async refresh(client: q.Client, form: Form): Promise<TokenAnswer> {
    const hash = sha256(required(form, 'refresh_token'))
    const scope = form['scope'] || undefined
    return this.#exchange(async (tx) => {
      const [found] = await tx.rows<q.RefreshToken>(q.lockRefreshToken(hash))
      if (!found || found.client !== client.id) throw invalidGrant('unknown or expired refresh token')
      if (found.isRotated) return { ended: await endGrant(tx, found.grantId) }
      if (scope !== undefined && scope !== found.scope) {
        throw refuse('invalid_scope', 'the scope of a grant does not change')
      }
      await tx.run(q.rotate(hash))
      return { tokens: await this.#tokens(tx, found.grantId, client.id, found.scope, 'refresh') }
    })
  }

  /** RFC 7009: the whole grant of a refresh token, an access token alone. `client` null: any holder may revoke it. */
  async revoke(token: string, client: q.Client | null): Promise<void> {
    const hash = sha256(token)
    const ended = await this.#deps.db.tx(SYSTEM, async (tx) => {
      const gone = await tx.rows<{ id: string }>(q.endAccessToken(hash, client?.id ?? null))
      const [grant] = await tx.rows<{ id: string }>(q.grantOfRefreshToken(hash, client?.id ?? null))
      return [...gone.map(({ id }) => id), ...(grant ? await endGrant(tx, grant.id) : [])]
    })
    this.#deps.onRevoked(ended)
  }

  /** The identity a token stands for; undefined for unknown, revoked and expired ones. */
  async resolve(token: string): Promise<(Identity & { kind: 'key' }) | undefined> {
    type TokenRow = {
      id: string
      grantId: string
      userId: string | null
      email: string
      scope: OAuthScope
      tables: string[]
      appId: string | null
      expiresAt: Date
    }
    const [found] = await this.#deps.db.rows<TokenRow>(SYSTEM, q.tokenByHash(sha256(token)))
    if (!found) return undefined
    const { id: keyId, grantId, userId, email, scope, tables, appId } = found
    const grant = { scope, tables, appId }
    const expiresAt = Math.floor(found.expiresAt.getTime() / 1000)
    return { kind: 'key', via: 'oauth', keyId, grantId, userId, email, grant, expiresAt }
  }

  /** Commits the end of a stolen grant before throwing the refusal. */
  async #exchange(work: (tx: Tx) => Promise<Exchanged>): Promise<TokenAnswer> {
    const exchanged = await this.#deps.db.tx(SYSTEM, work)
    if ('tokens' in exchanged) return exchanged.tokens
    this.#deps.onRevoked(exchanged.ended)
    throw invalidGrant('the token has been used before; everything it led to has ended')
  }

  async #issue(tx: Tx, grant: q.NewGrant, by: 'code' | 'client'): Promise<TokenAnswer> {
    await tx.run(q.insertGrant(grant))
    return this.#tokens(tx, grant.id, grant.client, grant.scope, by)
  }

  async #tokens(
    tx: Tx,
    grantId: string,
    client: string,
    scope: string,
    by: 'code' | 'client' | 'refresh',
  ): Promise<TokenAnswer> {
    // Waits for a concurrent revocation of the client, and updates no row after it.
    if ((await tx.run(q.countGrant(client, by === 'code'))) === 0) throw invalidClient()
    const { access_token_duration: seconds, refresh_token_duration: refreshSeconds } = this.#deps.config
    const [access, refresh] = [`svc_at_${randomHex(32)}`, `svc_rt_${randomHex(32)}`]
    await tx.run(q.insertAccessToken({ id: randomUUID(), hash: sha256(access), grantId, seconds }))
    if (by !== 'client') await tx.run(q.insertRefreshToken({ hash: sha256(refresh), grantId, seconds: refreshSeconds }))
    return {
      access_token: access,
      token_type: 'Bearer',
      expires_in: seconds,
      ...(by !== 'client' && { refresh_token: refresh }),
      scope,
    }
  }
}

const invalidGrant = (description: string) => refuse('invalid_grant', description)

async function endGrant(tx: Tx, id: string | null): Promise<string[]> {
  if (id === null) return []
  return (await tx.rows<{ id: string }>(q.endGrant(id))).map((token) => token.id)
}

const challengeOf = (verifier: string): string => createHash('sha256').update(verifier).digest('base64url')

export function required(form: Form, name: string): string {
  const value = form[name]
  if (!value) throw refuse('invalid_request', `${name} is required`)
  return value
}
