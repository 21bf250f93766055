import { AppError } from '../../core/errors.ts'
import { ON_BEHALF } from '../../core/identity.ts'
import { randomToken, sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { FormFields } from './authorization-request.ts'
import type { Client } from './client-sql.ts'
import { refuse } from './errors.ts'

const PREFIX = 'urn:ietf:params:oauth:request_uri:'
/** As long as a user may take to sign in. */
export const PUSHED_SECONDS = 600
/** Of a client at a time. */
const MAX_OPEN = 1000

/** The count is a bound, not a quota: of requests in parallel a few more may pass. */
const keepPushed = (hash: string, client: string, parameters: FormFields): Sql => sql`
  insert into svc.oauth_pushed (hash, client, parameters, expires_at)
  select ${hash}, ${client}::uuid, ${JSON.stringify(parameters)}::jsonb, now() + make_interval(secs => ${PUSHED_SECONDS}::int)
  where (select count(*) from (select from svc.oauth_pushed p where p.client = ${client}::uuid and p.expires_at > now()
    limit ${MAX_OPEN}::int) open) < ${MAX_OPEN}::int`

const pushedBy = (hash: string, clientId: string): Sql => sql`
  select p.parameters::text from svc.oauth_pushed p join svc.oauth_clients c on c.id = p.client
  where p.hash = ${hash} and c.client_id = ${clientId} and p.expires_at > now()`

/** Pushed authorization requests (RFC 9126): good for the first authorize, and for its client. */
export class PushedRequests {
  readonly #db: Db

  constructor(db: Db) {
    this.#db = db
  }

  async keep(client: Client, { client_secret: _, ...parameters }: FormFields): Promise<string> {
    const id = randomToken()
    if ((await this.#db.run(ON_BEHALF, keepPushed(sha256(id), client.id, parameters))) === 0) {
      throw new AppError('rate_limited', 'the client has too many open requests', { headers: { 'Retry-After': '60' } })
    }
    return PREFIX + id
  }

  /** The parameters behind a request_uri, and the statement that spends it. */
  async read(requestUri: string, clientId: string | undefined): Promise<{ fields: FormFields; spend: Sql }> {
    if (!requestUri.startsWith(PREFIX)) throw refuse('invalid_request_uri', 'request_uri is not one of this server')
    const hash = sha256(requestUri.slice(PREFIX.length))
    const text = clientId ? await this.#db.fly(ON_BEHALF, pushedBy(hash, clientId)) : null
    if (text === null) throw refuse('invalid_request_uri', 'request_uri is unknown, expired or used before')
    return {
      fields: JSON.parse(text),
      spend: sql`delete from svc.oauth_pushed where hash = ${hash} and expires_at > now()`,
    }
  }
}
