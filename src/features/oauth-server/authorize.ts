import { AppError } from '../../core/errors.ts'
import { ON_BEHALF, type UserIdentity } from '../../core/identity.ts'
import { hasScope } from '../../core/scope.ts'
import type { Db } from '../../db/db.ts'
import { findOrRefresh, findTable, isVisible } from '../../db/schema/lookup.ts'
import type { Schema, SchemaCache } from '../../db/schema/snapshot.ts'
import type { Sql } from '../../db/sql.ts'
import type { ClientTokens } from '../../identity/client-tokens.ts'
import { checkResource } from './agent-terms.ts'
import { type AuthorizationRequest, type FormFields, requestOfQuery } from './authorization-request.ts'
import { isRedirectUri, mayGrant, runChecks } from './authorize-checks.ts'
import type { BrowserSessions } from './browser-sessions.ts'
import { type ClientDocuments, isDocumentUrl } from './client-documents.ts'
import { type Client, clientNamed } from './client-sql.ts'
import { OAuthError, refuse, unknownClient, usedBefore } from './errors.ts'
import type { Grants } from './grants.ts'
import type { PushedRequests } from './pushed-requests.ts'

export type AuthorizeDeps = {
  db: Db
  schema: SchemaCache
  grants: Grants
  pushed: PushedRequests
  browsers: BrowserSessions
  tokens: Pick<ClientTokens, 'algorithms' | 'readIdToken'>
  /** What agents are at; undefined while agents.enabled is false. */
  agents: { resource: () => string; documents: ClientDocuments } | undefined
}

/** A request as its client made it. `spend`: of one that was pushed. */
export type OpenRequest = { client: Client; request: AuthorizationRequest; spend: Sql | undefined }

type Decision =
  | { kind: 'redirect'; request: AuthorizationRequest; answer: Readonly<Record<string, string>> }
  | { kind: 'sign in'; why: string; request: AuthorizationRequest }
  | { kind: 'prompt'; open: OpenRequest }

/** A sign-in of the last ten minutes is one of this request, for `prompt=login` and the time that a consent takes. */
const FRESH_SECONDS = 600
/** Between a sign-in on the page and its call of authorize. */
const ON_THE_WAY_SECONDS = 10

/** Decides about an authorization request: by the API with the bearer of a user, by the page with its cookie. */
export class Authorize {
  readonly #deps: AuthorizeDeps

  constructor(deps: AuthorizeDeps) {
    this.#deps = deps
  }

  /** The parameters of a request, also of one that was pushed. */
  async parametersOf(query: FormFields): Promise<{ fields: FormFields; spend: Sql | undefined }> {
    if (query['request']) throw refuse('request_not_supported', 'request objects are not supported')
    const requestUri = query['request_uri']
    return requestUri ? this.#deps.pushed.read(requestUri, query['client_id']) : { fields: query, spend: undefined }
  }

  /** `user` undefined: not signed in. */
  async decide(query: FormFields, user: UserIdentity | undefined, by: 'bearer' | 'cookie', ip: string) {
    const { fields, spend } = await this.parametersOf(query)
    const request = requestOfQuery(fields)
    const client = await this.#clientOf(fields['client_id'], user && ip)
    const open = { client, request, spend }
    if (!request.prompts.includes('none')) return this.#decideOn(open, user, by)
    // OpenID Connect Core, section 3.1.2.6: no page is shown that could say an error, so the client gets it.
    if (!isRedirectUri(client, request.redirectUri)) throw refuse('invalid_request', 'redirect_uri is not registered')
    return this.#decideOn(open, user, by).catch(async (error: unknown): Promise<Decision> => {
      const answer = silentAnswer(error)
      if (!answer) throw error
      if (spend) await this.#deps.db.run(ON_BEHALF, spend)
      return { kind: 'redirect', request, answer }
    })
  }

  async #decideOn(open: OpenRequest, user: UserIdentity | undefined, by: 'bearer' | 'cookie'): Promise<Decision> {
    const { client, request, spend } = open
    const isSilent = request.prompts.includes('none')
    await this.check(open)
    const why = await this.#whySignIn(request, user, by, isSilent ? 0 : ON_THE_WAY_SECONDS)
    if (why !== undefined && isSilent) throw refuse('login_required', why)
    if (why !== undefined || !user) return { kind: 'sign in', why: why ?? '', request }
    // RFC 8252, section 8.6: any program can open a browser here and listen where a native application would.
    const isAssured =
      by === 'bearer' || client.clientType === 'confidential' || request.redirectUri.startsWith('https:')
    if (isAssured && !request.prompts.includes('consent')) {
      const code = await this.#deps.grants.codeOfConsent(user, client, request, spend)
      if (code !== undefined) return { kind: 'redirect', request, answer: { code } }
    }
    if (isSilent) throw refuse('consent_required', 'the user has to agree to this')
    if (spend && (await this.#deps.db.run(ON_BEHALF, spend)) === 0) throw usedBefore()
    return { kind: 'prompt', open: { client, request, spend: undefined } }
  }

  /** Runs for the prompt and for the consent, so that only what was prompted can be approved. */
  async check({ client, request }: Pick<OpenRequest, 'client' | 'request'>): Promise<void> {
    runChecks(request, client)
    await this.#checkRights(client, request)
  }

  /** As `check`, of a request that no browser makes. Its tokens are for the API: agents have a browser. */
  async checkGrant(
    client: Client,
    request: Pick<AuthorizationRequest, 'scope' | 'tables' | 'resource'>,
  ): Promise<void> {
    if (!mayGrant(client, request.scope)) {
      throw refuse('invalid_scope', 'scope is not one that this client may ask for')
    }
    if (request.resource !== '') throw refuse('invalid_target', 'devices have no resource')
    await this.#checkRights(client, request)
  }

  async #checkRights(
    client: Client,
    request: Pick<AuthorizationRequest, 'scope' | 'tables' | 'resource'>,
  ): Promise<void> {
    checkResource(request, client, this.#deps.agents?.resource())
    if (hasScope(request.scope, 'openid') && this.#deps.tokens.algorithms().length === 0) {
      throw refuse('invalid_scope', 'openid needs a key that clients can verify: auth.signing_algorithm is HS256')
    }
    await requireTables(this.#deps.schema, request.tables)
  }

  /** The client and request of a consent. A sign-in that was fresh enough at the prompt stays so while the user decides. */
  async recheck(clientId: string | undefined, request: AuthorizationRequest, user: UserIdentity, ip: string) {
    const client = await this.#clientOf(clientId, ip)
    await this.check({ client, request })
    const why = await this.#whySignIn(request, user, 'bearer', FRESH_SECONDS)
    if (why !== undefined) throw refuse('login_required', why)
    return client
  }

  /** Why the user has to sign in, or to sign in again. */
  async #whySignIn(
    request: AuthorizationRequest,
    user: UserIdentity | undefined,
    by: 'bearer' | 'cookie',
    leeway: number,
  ): Promise<string | undefined> {
    if (!user) return 'the user is not signed in'
    if (!this.#isExpected(request, user, by)) return 'another user is signed in'
    const again = request.prompts.includes('login') || request.prompts.includes('select_account')
    if (again && by === 'cookie') return 'the user has to sign in again'
    if (!again && request.maxAge === undefined) return undefined
    const age = (await this.#deps.browsers.ageOf(user.sessionId)) ?? Number.POSITIVE_INFINITY
    const limit = Math.min(again ? FRESH_SECONDS : Number.POSITIVE_INFINITY, request.maxAge ?? Number.POSITIVE_INFINITY)
    return age > limit + (by === 'bearer' ? leeway : 0) ? 'the user signed in too long ago' : undefined
  }

  /** A user who signed in on the page in spite of the hint to another one meant it. */
  #isExpected({ loginHint, idTokenHint }: AuthorizationRequest, { id, email }: UserIdentity, by: 'bearer' | 'cookie') {
    const hint = loginHint.trim().toLowerCase()
    if (by === 'cookie' && hint !== '' && hint !== id && hint !== email) return false
    if (idTokenHint === '') return true
    const claims = this.#deps.tokens.readIdToken(idTokenHint)
    if (!claims) throw refuse('invalid_request', 'id_token_hint is not an ID token of this server')
    return claims.sub === id
  }

  /** `ip`: of a signed-in user. Documents of strangers are fetched for those alone. */
  async #clientOf(clientId: string | undefined, ip: string | undefined): Promise<Client> {
    if (clientId !== undefined && isDocumentUrl(clientId) && ip !== undefined) {
      if (!this.#deps.agents) throw unknownClient()
      return this.#deps.agents.documents.clientAt(clientId, ip)
    }
    const [client] = clientId ? await this.#deps.db.rows<Client>(ON_BEHALF, clientNamed(clientId)) : []
    if (!client || client.revokedAt) throw unknownClient()
    return client
  }
}

/** What a client hears that wants no page. */
function silentAnswer(error: unknown): Record<string, string> | undefined {
  if (error instanceof OAuthError) return { error: error.code, error_description: error.message }
  const needsFactor = error instanceof AppError && error.errorCode === 'insufficient_aal'
  return needsFactor ? { error: 'interaction_required', error_description: 'a second factor is required' } : undefined
}

/** Users see what they approve: names that mean no table now could mean another one later. */
async function requireTables(cache: SchemaCache, names: readonly string[]): Promise<void> {
  const isKnown = (schema: Schema) => (name: string) => {
    const table = findTable(schema, name)
    return table !== undefined && isVisible(table, 'svc_authenticated')
  }
  const areKnown = await findOrRefresh(cache, (schema) => names.every(isKnown(schema)) || undefined)
  if (!areKnown) throw refuse('invalid_request', 'allowed_tables names a table that does not exist')
}
