import { randomUUID } from 'node:crypto'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { GiveUp, type Queue } from '../../db/queue/queue.ts'
import { sql } from '../../db/sql.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import type { ClientTokens } from '../../identity/client-tokens.ts'

/** Also in the trigger svc.queue_logouts(). */
const LOGOUT_KIND = 'backchannel_logout'
const EVENT = 'http://schemas.openid.net/event/backchannel-logout'
const [TIMEOUT_MS, MAX_BYTES, TOKEN_SECONDS] = [5_000, 1_024, 120]
/** Parallel requests of a process, and of a client. */
const [CONCURRENCY, PER_CLIENT] = [20, 2]
const RETRY_SECONDS = [2, 10, 60, 600]

type BackchannelDeps = {
  db: Db
  queue: Queue
  /** Never reaches private networks, unless a test allows it. */
  outgoing: Pick<Outgoing, 'request'>
  tokens: Pick<ClientTokens, 'algorithms' | 'sign'>
  publicBaseUrl: () => string
  observe: Observe
}

type EndedLogin = { client: string; sid: string; sub: string }
type Receiver = { clientId: string; uri: string }

/** OpenID Connect Back-Channel Logout 1.0: clients hear that a session of their user has ended. */
export function startBackchannel(deps: BackchannelDeps): void {
  const { db, queue, tokens } = deps

  async function tell({ client, sid, sub }: EndedLogin, signal: AbortSignal): Promise<void> {
    const [receiver] = await db.rows<Receiver>(
      SYSTEM,
      sql`select client_id as "clientId", backchannel_logout_uri as uri from svc.oauth_clients
        where id = ${client}::uuid and revoked_at is null and backchannel_logout_uri is not null`,
    )
    if (!receiver) return
    if (tokens.algorithms().length === 0) throw new GiveUp('there is no published key to sign with')
    const claims = {
      iss: deps.publicBaseUrl(),
      aud: receiver.clientId,
      sub,
      sid,
      jti: randomUUID(),
      events: { [EVENT]: {} },
    }
    const answer = await deps.outgoing.request({
      method: 'POST',
      url: receiver.uri,
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      body: String(new URLSearchParams({ logout_token: tokens.sign('logout+jwt', claims, TOKEN_SECONDS) })),
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
      signal,
    })
    if (answer.status >= 200 && answer.status < 300) return
    const reason = `the client answered ${answer.status}`
    // Section 2.8: with 400 it refused the token, and would again.
    throw answer.status >= 400 && answer.status < 500 && answer.status !== 429 ? new GiveUp(reason) : new Error(reason)
  }

  const options = {
    concurrency: CONCURRENCY,
    perGroup: PER_CLIENT,
    leaseSeconds: 15,
    retryDelays: RETRY_SECONDS,
    onDead: ({ group: client }: { group: string }, error: unknown) =>
      deps.observe({ message: 'back-channel logout failed', attrs: { client, reason: reasonOf(error) } }),
  }
  queue.work(LOGOUT_KIND, options, (item, signal) => tell(item.payload as EndedLogin, signal))
}
