import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, badRequest, found } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import { changeAudited } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { isRegistrable, isScopeWord, mayGrant } from './authorize-checks.ts'
import * as q from './client-sql.ts'

const MAX_NAME = 255
const MAX_URIS = 100

export type ClientInput = {
  name: string
  redirectUris: readonly string[]
  scopes: readonly string[]
  postLogoutRedirectUris: readonly string[]
  /** Null: the client does not hear of logouts. */
  backchannelLogoutUri: string | null
}

/** OAuth clients, registered by the operator. */
export class Clients {
  readonly #db: Db
  /** Drops what has ended from this process's caches. */
  readonly #dropEnded: () => Promise<void>

  /** Whether the server may send logouts to an address. */
  readonly #isLogoutUri: (uri: string) => boolean

  constructor(deps: { db: Db; dropEnded: () => Promise<void>; isLogoutUri: (uri: string) => boolean }) {
    this.#db = deps.db
    this.#dropEnded = deps.dropEnded
    this.#isLogoutUri = deps.isLogoutUri
  }

  async page(page: { page: number; perPage: number; offset: number }): Promise<string> {
    return (await this.#db.fly(SYSTEM, q.clientsPage(page))) ?? ''
  }

  async one(clientId: string): Promise<string> {
    return requireClient(await this.#db.fly(SYSTEM, q.oneClient(clientId)))
  }

  async create(
    appId: string,
    type: string,
    input: ClientInput,
    act: AuditSource,
  ): Promise<{ clientSecret?: string; client: { id: string } }> {
    if (type !== 'confidential' && type !== 'public') throw badRequest('invalid client type')
    const checked = this.#check(input, type)
    const secret = type === 'confidential' ? newSecret() : undefined
    const clientId = `svc_cid_${randomHex(16)}`
    const made = {
      ...checked,
      clientId,
      appId,
      clientType: type,
      secretHash: secret === undefined ? null : sha256(secret),
    } as const
    const client = await changeAudited(
      this.#db,
      async (tx) => {
        if ((await tx.run(q.insertClient(made))) === 0) throw badRequest('app not found', 'unknown_reference')
        return JSON.parse(await clientIn(tx, clientId)) as { id: string }
      },
      (newValues) => act.audit({ target: newValues.id, newValues }),
    )
    return { ...(secret !== undefined && { clientSecret: secret }), client }
  }

  async update(clientId: string, input: ClientInput, act: AuditSource): Promise<string> {
    const updated = await changeAudited(
      this.#db,
      async (tx) => {
        const client = await livingIn(tx, clientId)
        const checked = this.#check(input, client.clientType)
        await tx.run(q.updateClient(clientId, checked))
        await endTakenScopes(tx, clientId, checked)
        return clientIn(tx, clientId)
      },
      (text) => act.audit({ newValues: JSON.parse(text) }),
    )
    await this.#dropEnded()
    return updated
  }

  async rotateSecret(clientId: string, act: AuditSource): Promise<string> {
    const secret = newSecret()
    await changeAudited(
      this.#db,
      async (tx) => {
        const client = await livingIn(tx, clientId)
        if (client.clientType === 'public') throw badRequest('public clients have no secret')
        await tx.run(q.replaceSecret(clientId, sha256(secret)))
      },
      () => act.audit(),
    )
    return secret
  }

  /** Also ends its tokens, in all processes. */
  async revoke(clientId: string, act: AuditSource): Promise<void> {
    await changeAudited(
      this.#db,
      async (tx) => {
        await clientIn(tx, clientId)
        for (const statement of q.revokeClients(q.isClient(clientId))) await tx.run(statement)
      },
      () => act.audit(),
    )
    await this.#dropEnded()
  }

  #check(input: ClientInput, type: string): q.ClientSettings {
    const { postLogoutRedirectUris: after, backchannelLogoutUri: uri } = input
    const checked = check(input, type)
    if (after.length > MAX_URIS) throw badRequest(`at most ${MAX_URIS} post-logout redirect URIs are allowed`)
    const wrong = after.find((one) => !isRegistrable(one, type))
    if (wrong !== undefined) {
      throw new AppError('validation_failed', `invalid post-logout redirect URI: ${wrong.slice(0, 200)}`)
    }
    if (uri !== null && uri !== '' && !this.#isLogoutUri(uri)) {
      throw new AppError('validation_failed', `invalid back-channel logout URI: ${uri.slice(0, 200)}`)
    }
    return { ...checked, postLogoutRedirectUris: [...new Set(after)], backchannelLogoutUri: uri || null }
  }
}

const requireClient = <T>(client: T | null | undefined): T =>
  found(client, 'oauth client not found', 'oauth_client_not_found')

const clientIn = async (tx: Tx, clientId: string): Promise<string> => requireClient(await tx.fly(q.oneClient(clientId)))

async function livingIn(tx: Tx, clientId: string): Promise<q.Client> {
  const [row] = await tx.rows<q.Client>(q.clientNamed(clientId))
  const client = requireClient(row)
  if (client.revokedAt) throw badRequest('oauth client has been revoked')
  return client
}

/** Grants that a client could not be given now. */
async function endTakenScopes(tx: Tx, clientId: string, client: Pick<q.Client, 'scopes'>): Promise<void> {
  const granted = await tx.rows<{ scope: string }>(q.grantedScopes(clientId))
  const taken = granted.map(({ scope }) => scope).filter((scope) => !mayGrant(client, scope))
  if (taken.length > 0) await tx.run(q.endGrantsWithScopes(clientId, taken))
}

/** For the flight that deletes an app. */
export const revokeClientsOfApp = (appId: string): readonly Sql[] => q.revokeClients(q.isOfApp(appId))

const newSecret = (): string => `svc_cs_${randomHex(32)}`

function check(
  { name, redirectUris, scopes }: ClientInput,
  type: string,
): {
  name: string
  redirectUris: string[]
  scopes: string[]
} {
  const trimmed = name.trim()
  if (trimmed === '') throw badRequest('name is required')
  if (trimmed.length > MAX_NAME) throw badRequest(`name must be at most ${MAX_NAME} characters`)
  if (redirectUris.length === 0) throw badRequest('at least one redirect URI is required')
  if (redirectUris.length > MAX_URIS) throw badRequest(`at most ${MAX_URIS} redirect URIs are allowed`)
  const wrong = redirectUris.find((uri) => !isRegistrable(uri, type))
  if (wrong !== undefined) throw new AppError('validation_failed', `invalid redirect URI: ${wrong.slice(0, 200)}`)
  if (scopes.length === 0) throw badRequest('at least one scope is required')
  const strange = scopes.find((scope) => !isScopeWord(scope))
  if (strange !== undefined) throw badRequest(`invalid scope: ${strange.slice(0, 100)}`)
  return { name: trimmed, redirectUris: [...new Set(redirectUris)], scopes: [...new Set(scopes)] }
}
