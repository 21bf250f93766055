import type { AppError } from '../../core/errors.ts'
import { ON_BEHALF } from '../../core/identity.ts'
import { hasUnprintable } from '../../core/unprintable.ts'
import type { Db } from '../../db/db.ts'
import { type Outgoing, OutgoingError } from '../../http/out/outgoing.ts'
import { isRegistrable } from './authorize-checks.ts'
import { type Client, clientNamed, keepStranger } from './client-sql.ts'
import { refuse, unknownClient } from './errors.ts'

/** What a client without the operator may ask for: files are not the business of agents. */
export const STRANGERS_SCOPES: readonly string[] = ['readonly', 'readwrite']

const [MAX_BYTES, TIMEOUT_MS, MAX_URL, MAX_NAME, MAX_URIS] = [10_000, 5_000, 500, 255, 20]

type Deps = {
  db: Db
  /** Never reaches private networks, unless a test allows it. */
  outgoing: Pick<Outgoing, 'request'>
  /** Counts a document for the address of a caller; throws 429. */
  countDocument: (ip: string) => Promise<void>
}

export const isDocumentUrl = (clientId: string): boolean => clientId.startsWith('https://')

/** Client ID Metadata Documents (draft-ietf-oauth-client-id-metadata-document): a client is what its own address says. */
export class ClientDocuments {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** For a signed-in user only: the address is a stranger's choice. */
  async clientAt(url: string, ip: string): Promise<Client> {
    const [known] = await this.#deps.db.rows<Client>(ON_BEHALF, clientNamed(url))
    if (known?.revokedAt) throw unknownClient()
    if (known && !known.isStale) return known
    if (!isGoodAddress(url)) throw refuse('invalid_request', 'client_id is not an address that a document may have')
    await this.#deps.countDocument(ip)
    const { name, redirectUris } = await this.#read(url)
    const scopes = [...STRANGERS_SCOPES]
    const client = { clientId: url, name, redirectUris, scopes, origin: 'document' as const }
    await this.#deps.db.run(ON_BEHALF, keepStranger(client))
    const [kept] = await this.#deps.db.rows<Client>(ON_BEHALF, clientNamed(url))
    if (!kept || kept.revokedAt || kept.origin !== 'document') throw unknownClient()
    return kept
  }

  async #read(url: string): Promise<{ name: string; redirectUris: string[] }> {
    const headers = { Accept: 'application/json' }
    const sent = { method: 'GET', url, headers, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES } as const
    const answer = await this.#deps.outgoing.request(sent).catch((error: unknown) => {
      if (error instanceof OutgoingError) throw unreadable(error.message)
      throw error
    })
    if (answer.status !== 200) throw unreadable(`it answered ${answer.status}`)
    if (answer.truncated) throw unreadable('it is larger than 10 kB')
    return clientOfDocument(url, answer.body)
  }
}

const unreadable = (why: string): AppError =>
  refuse('invalid_request', `the document of client_id cannot be used: ${why}`)

/** https on its own port, with a path, and nothing that a browser would write in another way. */
function isGoodAddress(text: string): boolean {
  if (text.length > MAX_URL || !URL.canParse(text) || /[\s#?\\@]/.test(text)) return false
  const { protocol, port, pathname, href } = new URL(text)
  return protocol === 'https:' && port === '' && pathname !== '/' && href === text
}

function clientOfDocument(url: string, body: string): { name: string; redirectUris: string[] } {
  let document: Readonly<Record<string, unknown>>
  try {
    document = JSON.parse(body)
  } catch {
    throw unreadable('it is no JSON')
  }
  if (typeof document !== 'object' || document === null) throw unreadable('it is no object')
  if (document['client_id'] !== url) throw unreadable('its client_id is not its address')
  const method = document['token_endpoint_auth_method'] ?? 'none'
  if (method !== 'none' || document['client_secret'] !== undefined)
    throw unreadable('only public clients are supported')
  const { name, redirectUris } = strangerOf(document)
  return { name: name || new URL(url).hostname, redirectUris }
}

/** Name and redirect URIs as strangers give them. */
export function strangerOf(given: Readonly<Record<string, unknown>>): { name: string; redirectUris: string[] } {
  const { redirect_uris: uris, client_name = '' } = given
  const name = typeof client_name === 'string' ? client_name.trim() : undefined
  // It stands on the consent page.
  if (name === undefined || name.length > MAX_NAME || hasUnprintable(name)) {
    const words = `client_name must be at most ${MAX_NAME} characters, without control characters`
    throw refuse('invalid_client_metadata', words)
  }
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > MAX_URIS) {
    throw refuse('invalid_redirect_uri', `redirect_uris must be an array of 1 to ${MAX_URIS}`)
  }
  const wrong = uris.find((uri) => typeof uri !== 'string' || !isRegistrable(uri, 'public'))
  if (wrong !== undefined) throw refuse('invalid_redirect_uri', `invalid redirect URI: ${String(wrong).slice(0, 200)}`)
  return { name, redirectUris: [...new Set(uris as string[])] }
}
