import { ON_BEHALF } from '../../core/identity.ts'
import { equalInConstantTime, sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { type Client, clientNamed } from './client-sql.ts'
import { invalidClient, refuse } from './errors.ts'

type Form = Readonly<Record<string, string>>
/** Unverified credentials of a client; public clients have no secret. */
export type ClientCredentials = { readonly clientId: string; readonly secret: string | undefined }

/** RFC 6749, section 2.3.1: HTTP Basic or fields of the form, never a secret in both. Undefined when there are none. */
export function clientCredentials(authorization: string | undefined, form: Form): ClientCredentials | undefined {
  const [bodyId, bodySecret] = [form['client_id'] || undefined, form['client_secret'] || undefined]
  const basic = /^basic +(\S+)$/i.exec(authorization ?? '')?.[1]
  if (authorization !== undefined && /^basic\b/i.test(authorization) && basic === undefined) throw invalidClient()
  if (basic === undefined) return bodyId === undefined ? undefined : { clientId: bodyId, secret: bodySecret }
  if (bodySecret !== undefined) throw refuse('invalid_request', 'the client authenticates in two ways')
  const { clientId, secret } = readBasic(basic)
  if (bodyId !== undefined && bodyId !== clientId)
    throw refuse('invalid_request', 'client_id differs from the one of HTTP Basic')
  return { clientId, secret }
}

/** Both halves are form-encoded before they are joined and encoded again. */
function readBasic(text: string): { clientId: string; secret: string } {
  const decoded = Buffer.from(text, 'base64').toString('utf8')
  const colon = decoded.indexOf(':')
  if (colon === -1) throw invalidClient('malformed credentials')
  const decode = (part: string): string => {
    try {
      return decodeURIComponent(part.replaceAll('+', ' '))
    } catch {
      throw invalidClient('malformed credentials')
    }
  }
  return { clientId: decode(decoded.slice(0, colon)), secret: decode(decoded.slice(colon + 1)) }
}

/** Compared for an unknown client, so that timing reveals nothing. */
const NO_HASH = sha256('')

/** The client of these credentials. A public client must not send a secret. */
export async function authenticate(db: Db, credentials: ClientCredentials | undefined): Promise<Client> {
  if (!credentials) throw invalidClient('client authentication is required')
  const [client] = await db.rows<Client>(ON_BEHALF, clientNamed(credentials.clientId))
  const matches = equalInConstantTime(sha256(credentials.secret ?? ''), client?.secretHash ?? NO_HASH)
  const isPublic = client?.clientType === 'public'
  // One refusal for all: it tells neither which clients exist nor of which type they are.
  if (!client || client.revokedAt || (isPublic ? credentials.secret : !credentials.secret || !matches)) {
    throw invalidClient()
  }
  return client
}
