import { unauthorized } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import { bearerOf } from '../../http/guard.ts'
import { type Call, type Reply, type Route, route } from '../../http/route.ts'
import type { RealtimeContext } from './context.ts'
import { EventStream, STREAM_HEADERS } from './deliver/event-stream.ts'
import { interestOf } from './subscribe/interest.ts'
import { namesIn } from './subscribe/tables.ts'

export function streamRoute(context: RealtimeContext): Route {
  const { hub, connections, tables, filters, visitorsMayListen, requires } = context

  async function open(call: Call): Promise<Reply> {
    connections.refuseIfDraining()
    const { who, query, headers, raw } = call
    if (who.kind === 'anonymous' && !visitorsMayListen) throw unauthorized('authentication required')
    const names = namesIn(query['tables'] ?? '')
    const selection = { tables: names.length > 0 ? names : undefined, filter: query['filter'] }
    const interest = interestOf(who, await tables.select(who, selection))
    if (interest.isFiltered) filters.requireBudget(interest.payer)
    if (raw.request.method === 'HEAD') return { status: 200, headers: STREAM_HEADERS }
    const release = connections.acquire(who)
    try {
      // A browser that reconnects sends the header; the URL still holds what the page began with.
      const { from, isReset, moment } = await hub.startAt(headers['last-event-id'] || query['lastEventId'] || undefined)
      connections.refuseIfDraining()
      const stream = new EventStream(raw.response, { ...context.client, who })
      stream.begin(from)
      if (isReset) stream.reset(from)
      const subscription = hub.subscribe(stream, interest, { from, moment })
      connections.add(stream, () => subscription.position)
      const close = (): void => {
        connections.remove(stream)
        hub.unsubscribe(subscription)
        release()
      }
      if (raw.response.destroyed) close()
      else raw.response.once('close', close)
      await connections.endIfRevoked(stream, bearerOf(headers['authorization'], query['token'] || undefined))
      return { status: 200, streaming: true }
    } catch (error) {
      if (!raw.response.headersSent) release()
      throw error
    }
  }

  return route('GET /api/realtime', {
    summary: 'Changes as they are committed, as server-sent events',
    auth: 'optional',
    leastRole: 'viewer',
    access: 'read',
    impersonable: true,
    tokenInQuery: true,
    limit: 'api',
    requires,
    query: {
      tables: t.string({ description: 'tables to listen to, separated by commas' }),
      token: t.string({ description: 'the bearer, for clients that cannot send headers' }),
      lastEventId: t.string({ description: 'go on after this event' }),
    },
    answers: { 200: { content: 'text/event-stream' } },
    handle: open,
  })
}
