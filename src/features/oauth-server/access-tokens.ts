import { AppError } from '../../core/errors.ts'
import { type Identity, ON_BEHALF, SYSTEM } from '../../core/identity.ts'
import { grantOf, hasScope, opensData } from '../../core/scope.ts'
import { sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { invalidToken } from '../../identity/errors.ts'
import { mayGrant } from './authorize-checks.ts'
import type { Client } from './client-sql.ts'
import { claimsByScope, userClaims } from './openid.ts'

type KeyIdentity = Extract<Identity, { kind: 'key' }>

type TokenRow = {
  id: string
  grantId: string
  userId: string | null
  email: string
  scope: string
  tables: string[]
  /** Of the client. */
  scopes: string[]
  appId: string | null
  resource: string
  auto: number | null
  release: boolean
  client: string
  clientId: string
  expiresAt: Date
}

/** What makes tokens of a grant good: its client, its user and the end that the user chose. */
const isAlive = sql`c.revoked_at is null and u.disabled_at is null and (g.until is null or g.until > now())`

const tokenByHash = (hash: string): Sql => sql`
  select t.id::text, g.id::text as "grantId", g.user_id::text as "userId", coalesce(u.email, '') as email, g.scope, g.tables,
    g.resource, g.auto, g.release, c.scopes, c.app_id::text as "appId", c.id::text as client, c.client_id as "clientId",
    t.expires_at as "expiresAt"
  from svc.oauth_access_tokens t
  join svc.oauth_grants g on g.id = t.grant_id
  join svc.oauth_clients c on c.id = g.client
  left join svc.users u on u.id = g.user_id
  where t.hash = ${hash} and t.expires_at > now() and ${isAlive}`

/** An access or refresh token of a client; no row for what is not good, or another's. */
const introspected = (hash: string, client: string): Sql => sql`
  select t.is_access as "isAccess", g.scope, g.user_id::text as "userId", coalesce(u.email, '') as email, g.resource, c.scopes,
    floor(extract(epoch from t.expires_at))::float8 as exp, floor(extract(epoch from t.created_at))::float8 as iat
  from (
    select grant_id, expires_at, created_at, true as is_access from svc.oauth_access_tokens where hash = ${hash}
    union all
    select grant_id, expires_at, created_at, false from svc.oauth_refresh_tokens
    where hash = ${hash} and rotated_at is null
  ) t
  join svc.oauth_grants g on g.id = t.grant_id
  join svc.oauth_clients c on c.id = g.client
  left join svc.users u on u.id = g.user_id
  where c.id = ${client}::uuid and t.expires_at > now() and ${isAlive}`

type IntrospectedRow = Pick<TokenRow, 'scope' | 'userId' | 'email' | 'resource' | 'scopes'> & {
  isAccess: boolean
  exp: number
  iat: number | null
}

/** Reads tokens that `Grants` issued. */
export class AccessTokens {
  readonly #db: Db
  readonly #issuer: () => string

  constructor(deps: { db: Db; issuer: () => string }) {
    this.#db = deps.db
    this.#issuer = deps.issuer
  }

  /** The identity a token stands for; undefined for unknown, revoked and expired ones, and those of another resource. */
  resolve(token: string): Promise<KeyIdentity | undefined> {
    return this.#resolve(token, (resource) => resource === '')
  }

  /** As `resolve`, for tokens of agents. */
  async resolveAgent(token: string, resource: string): Promise<KeyIdentity | undefined> {
    const who = await this.#resolve(token, (own) => own === resource)
    return who?.userId === null ? undefined : who
  }

  async #resolve(token: string, isAudience: (resource: string) => boolean): Promise<KeyIdentity | undefined> {
    const found = await this.#find(token)
    if (!found || !isAudience(found.resource)) return undefined
    if (!opensData(found.scope)) throw new AppError('insufficient_scope', 'this token does not open any data')
    const { id: keyId, grantId, userId, email, scope, tables, appId } = found
    const grant = grantOf(scope, tables, appId)
    const expiresAt = Math.floor(found.expiresAt.getTime() / 1000)
    const who = { kind: 'key', via: 'oauth', keyId, grantId, userId, email, grant, expiresAt } as const
    if (found.resource === '') return who
    const { client, clientId, auto, release, resource } = found
    return { ...who, agent: { client, clientId, auto, release, resource } }
  }

  async #find(token: string): Promise<TokenRow | undefined> {
    const [found] = await this.#db.rows<TokenRow>(SYSTEM, tokenByHash(sha256(token)))
    return found && mayGrant(found, found.scope) ? found : undefined
  }

  /** OpenID Connect Core, section 5.3: what the scope of a token opens of its user. */
  async userInfo(token: string): Promise<object> {
    const found = token.startsWith('svc_at_') ? await this.#find(token) : undefined
    if (found?.resource !== '') throw invalidToken()
    const { userId, scope } = found
    if (userId === null || !hasScope(scope, 'openid')) {
      throw new AppError('insufficient_scope', 'the scope openid is required')
    }
    const claims = await this.#db.fly(ON_BEHALF, userClaims(userId))
    if (claims === null) throw invalidToken()
    return { sub: userId, ...claimsByScope(scope, JSON.parse(claims)) }
  }

  /** RFC 7662, section 2.2: of a client's own tokens. What is not good, unknown or another's has one answer. */
  async introspect(token: string, client: Client): Promise<object> {
    const [found] = await this.#db.rows<IntrospectedRow>(ON_BEHALF, introspected(sha256(token), client.id))
    if (!found || !mayGrant(found, found.scope)) return { active: false }
    const { isAccess, scope, userId, email, resource, exp, iat } = found
    return {
      active: true,
      scope,
      client_id: client.clientId,
      ...(userId !== null && { sub: userId, username: email }),
      ...(isAccess && { token_type: 'Bearer' }),
      exp,
      ...(iat !== null && { iat }),
      iss: this.#issuer(),
      aud: resource === '' ? `${this.#issuer()}/api` : resource,
    }
  }
}
