import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { isRegistrable, isScope } from './checks.ts'
import * as q from './sql.ts'

const MAX_NAME = 255
const MAX_URIS = 100

export type ClientWish = { name: string; redirectUris: readonly string[]; scopes: readonly string[] }

/** The applications that may ask, as the operator registers them. */
export class Clients {
  readonly #db: Db
  constructor(db: Db) {
    this.#db = db
  }

  async page(asked: { page: number; perPage: number; offset: number }): Promise<string> {
    return (await this.#db.fly(SYSTEM, q.clientsPage(asked))) ?? ''
  }

  async one(clientId: string): Promise<string> {
    const text = await this.#db.fly(SYSTEM, q.oneClient(clientId))
    if (text === null) throw notFound('oauth client not found')
    return text
  }

  async create(
    appId: string,
    type: string,
    wish: ClientWish,
  ): Promise<{ clientSecret?: string; client: { id: string } }> {
    if (type !== 'confidential' && type !== 'public') throw badRequest('invalid client type')
    const checked = check(wish)
    const secret = type === 'confidential' ? newSecret() : undefined
    const clientId = `svc_cid_${randomHex(16)}`
    const made = {
      ...checked,
      clientId,
      appId,
      clientType: type,
      secretHash: secret === undefined ? null : sha256(secret),
    } as const
    if ((await this.#db.run(SYSTEM, q.insertClient(made))) === 0) throw badRequest('app not found')
    return { ...(secret !== undefined && { clientSecret: secret }), client: JSON.parse(await this.one(clientId)) }
  }

  async update(clientId: string, wish: ClientWish): Promise<string> {
    const checked = check(wish)
    await this.#living(clientId)
    await this.#db.run(SYSTEM, q.updateClient(clientId, checked))
    return this.one(clientId)
  }

  async rotateSecret(clientId: string): Promise<string> {
    const client = await this.#living(clientId)
    if (client.clientType === 'public') throw badRequest('public clients have no secret')
    const secret = newSecret()
    await this.#db.run(SYSTEM, q.replaceSecret(clientId, sha256(secret)))
    return secret
  }

  /** Its tokens end everywhere with it. */
  async revoke(clientId: string): Promise<void> {
    await this.one(clientId)
    await this.#db.run(SYSTEM, q.revokeClients(q.isClient(clientId)))
  }

  async #living(clientId: string): Promise<q.Client> {
    const [client] = await this.#db.rows<q.Client>(SYSTEM, q.clientNamed(clientId))
    if (!client) throw notFound('oauth client not found')
    if (client.revokedAt) throw badRequest('oauth client has been revoked')
    return client
  }
}

/** For the flight that deletes an app. */
export const revokeClientsOfApp = (appId: string): Sql => q.revokeClients(q.isOfApp(appId))

const newSecret = (): string => `svc_cs_${randomHex(32)}`

function check({ name, redirectUris, scopes }: ClientWish): { name: string; redirectUris: string[]; scopes: string[] } {
  const trimmed = name.trim()
  if (trimmed === '') throw badRequest('name is required')
  if (trimmed.length > MAX_NAME) throw badRequest(`name must be at most ${MAX_NAME} characters`)
  if (redirectUris.length === 0) throw badRequest('at least one redirect URI is required')
  if (redirectUris.length > MAX_URIS) throw badRequest(`at most ${MAX_URIS} redirect URIs are allowed`)
  const wrong = redirectUris.find((uri) => !isRegistrable(uri))
  if (wrong !== undefined) throw new AppError('bad_request', `invalid redirect URI: ${wrong.slice(0, 200)}`)
  if (scopes.length === 0) throw badRequest('at least one scope is required')
  const strange = scopes.find((scope) => !isScope(scope))
  if (strange !== undefined) throw badRequest(`invalid scope: ${strange.slice(0, 100)}`)
  return { name: trimmed, redirectUris: [...new Set(redirectUris)], scopes: [...new Set(scopes)] }
}
