import { type Identity, impersonationOf, SYSTEM, userIdOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Peers } from '../../core/peers.ts'
import type { Db } from '../../db/db.ts'
import { json, type Route, route } from '../../http/route.ts'
import { presentNow } from './channels/sql.ts'
import { expiryOf } from './deliver/client.ts'
import type { Connections } from './deliver/connections.ts'

/** Connections of one process, and channels, that are named; beyond them there is the number. */
const MAX_NAMED = 500
const MAX_CHANNELS_NAMED = 200
const MAX_MEMBERS_NAMED = 50

const connection = t.object({
  caller: t.oneOf(['visitor', 'user', 'key', 'admin'] as const),
  user_id: t.nullable(t.uuid()),
  email: t.nullable(t.string()),
  key_id: t.nullable(t.string({ description: 'of a key or token' })),
  impersonated_by: t.nullable(t.string({ description: 'the administrator who acts as this caller' })),
  via: t.oneOf(['stream', 'websocket'] as const),
  since: t.time(),
  expires_at: t.nullable(t.time({ description: 'when its token ends' })),
})

const channel = t.object({
  channel: t.string(),
  count: t.integer(),
  members: t.array(
    t.object({
      user_id: t.nullable(t.uuid()),
      email: t.nullable(t.string()),
      state: t.string({ description: 'JSON, its first 1,000 characters' }),
    }),
  ),
})

const CALLERS = { user: 'user', mfa: 'user', key: 'key', admin: 'admin' } as const

function describe(who: Identity, since: number, via: 'stream' | 'websocket') {
  const expiry = expiryOf(who)
  return {
    caller: who.kind === 'anonymous' || who.kind === 'system' ? ('visitor' as const) : CALLERS[who.kind],
    user_id: userIdOf(who),
    email: ('email' in who && who.email) || null,
    key_id: who.kind === 'key' ? who.keyId : null,
    impersonated_by: impersonationOf(who)?.by ?? null,
    via,
    since: new Date(since).toISOString(),
    expires_at: expiry === undefined ? null : new Date(expiry).toISOString(),
  }
}

type Deps = { db: Db; connections: Connections; askAllWorkers: Peers; requires: () => void }

/** Who listens, over all processes of this server; channels and their members, over all servers of the database. */
export function connectedRoute({ db, connections, askAllWorkers, requires }: Deps): Route {
  const ofAll = askAllWorkers('realtime', () => ({
    count: connections.size,
    named: connections.list(MAX_NAMED).map(({ who, since, via }) => describe(who, since, via)),
  }))
  return route('GET /api/admin/realtime', {
    summary: 'Who is connected: callers that listen, channels and their members',
    auth: 'admin',
    leastRole: 'viewer',
    requires,
    answers: {
      200: t.object({ count: t.integer(), connections: t.array(connection), channels: t.array(channel) }),
    },
    async handle() {
      const present = presentNow(MAX_CHANNELS_NAMED, MAX_MEMBERS_NAMED)
      const [processes, channels] = await Promise.all([ofAll(), db.fly(SYSTEM, present)])
      const count = processes.reduce((sum, own) => sum + own.count, 0)
      const named = processes.flatMap((own) => own.named).sort((a, b) => (a.since < b.since ? 1 : -1))
      return json(200, { count, connections: named.slice(0, MAX_NAMED), channels: JSON.parse(channels ?? '[]') })
    },
  })
}
