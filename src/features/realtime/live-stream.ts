import { unauthorized } from '../../core/errors.ts'
import type { LiveQuery } from '../../db/rows/live-query.ts'
import { bearerOf } from '../../http/guard.ts'
import type { Call, Reply } from '../../http/route.ts'
import { toAppError } from '../../http/wire/error-response.ts'
import type { RealtimeContext } from './context.ts'
import { EventStream, STREAM_HEADERS } from './deliver/event-stream.ts'
import type { LiveListener, LiveMessage } from './live/message.ts'
import type { LiveHandle, LiveQueries } from './live/queries.ts'

/** Answers a list as a stream of server-sent events that keep it true. */
export type OpenLiveStream = (call: Call, list: () => LiveQuery) => Promise<Reply>

export function liveStream(context: RealtimeContext, queries: LiveQueries): OpenLiveStream {
  const { connections, visitorsMayListen, requires } = context
  return async (call, list) => {
    requires()
    connections.refuseIfDraining()
    const { who, query, headers, raw } = call
    if (who.kind === 'anonymous' && !visitorsMayListen) throw unauthorized('authentication required')
    const wanted = list()
    if (raw.request.method === 'HEAD') {
      await wanted.plan(who)
      return { status: 200, headers: STREAM_HEADERS }
    }
    const release = connections.acquire(who)
    let handle: LiveHandle | undefined
    try {
      let stream: EventStream | undefined
      const listener: LiveListener = {
        send: (message: LiveMessage) => {
          const fields = query['keys'] === 'true' ? message.fieldsAndKeys : message.fields
          stream?.sendEvent(message.type, message.position, fields)
        },
        slow: (interval) => stream?.sendEvent('slow', undefined, Buffer.from(`"interval":${interval}}`)),
        fail: (error) => stream?.fail(toAppError(error)),
      }
      // A browser that reconnects sends the header; the URL still holds what the page began with.
      const position = headers['last-event-id'] || query['lastEventId'] || query['position'] || undefined
      handle = await queries.open(who, wanted, listener, position)
      connections.refuseIfDraining()
      const opened = handle
      stream = new EventStream(raw.response, { ...context.client, who })
      stream.beginQuietly()
      if (opened.first) listener.send(opened.first)
      connections.add(stream)
      const client = stream
      const close = (): void => {
        connections.remove(client)
        opened.close()
        release()
      }
      if (raw.response.destroyed) close()
      else raw.response.once('close', close)
      await connections.endIfRevoked(client, bearerOf(headers['authorization'], query['token'] || undefined))
      return { status: 200, streaming: true }
    } catch (error) {
      if (!raw.response.headersSent) {
        handle?.close()
        release()
      }
      throw error
    }
  }
}
