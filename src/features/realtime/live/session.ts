import { AppError, badRequest, unauthorized } from '../../../core/errors.ts'
import type { LiveQuery } from '../../../db/rows/live-query.ts'
import { readBody } from '../../../http/contract.ts'
import { toAppError } from '../../../http/wire/error-response.ts'
import { liveFields, textFrame, unliveFields } from '../deliver/messages.ts'
import type { SocketClient } from '../deliver/web-socket.ts'
import type { LiveListener, LiveMessage } from './message.ts'
import type { LiveHandle, LiveQueries } from './queries.ts'

export type LiveSessionDeps = {
  queries: LiveQueries
  /** A list by the name of its table and its parameters. Throws what these are refused with. */
  list: (collection: string, query: Readonly<Record<string, string>>) => LiveQuery
  visitorsMayListen: boolean
}

const MAX_LIVE = 20

/** The live lists of one WebSocket, by numbers. */
export class LiveSession {
  readonly #client: SocketClient
  readonly #deps: LiveSessionDeps
  readonly #open = new Map<number, LiveHandle>()
  #last = 0

  constructor(client: SocketClient, deps: LiveSessionDeps) {
    this.#client = client
    this.#deps = deps
  }

  async open(fields: object, reply: (more: object) => void): Promise<void> {
    const { queries, list, visitorsMayListen } = this.#deps
    const client = this.#client
    const { collection, query, position, keys = false } = readBody(liveFields, fields)
    if (client.who.kind === 'anonymous' && !visitorsMayListen) throw unauthorized('authentication required')
    if (this.#open.size >= MAX_LIVE) throw badRequest('too many live queries')
    const live = ++this.#last
    const listener = this.#listener(live, keys)
    const handle = await queries.open(
      client.who,
      list(collection, asTexts(query ?? {})),
      listener,
      position ?? undefined,
    )
    if (client.closed) return handle.close()
    this.#open.set(live, handle)
    reply({ live })
    if (handle.first) listener.send(handle.first)
  }

  end(fields: object): void {
    this.#end(readBody(unliveFields, fields).live)
  }

  /** What another token of the same user sees may differ. */
  async tokenChanged(): Promise<void> {
    for (const [live, handle] of this.#open) {
      await handle.become(this.#client.who).catch((error: unknown) => this.#listener(live).fail(toAppError(error)))
    }
  }

  close(): void {
    for (const live of this.#open.keys()) this.#end(live)
  }

  #end(live: number): void {
    this.#open.get(live)?.close()
    this.#open.delete(live)
  }

  #listener(live: number, isKeyed = false): LiveListener {
    const client = this.#client
    return {
      send: (message: LiveMessage) => {
        const head = Buffer.from(`{"type":"${message.type}","live":${live},`)
        client.send(textFrame(Buffer.concat([head, isKeyed ? message.fieldsAndKeys : message.fields])))
      },
      slow: (interval) => client.sendMessage({ type: 'slow', live, interval }),
      fail: (error) => {
        this.#end(live)
        const { errorCode, status, message } = error instanceof AppError ? error : toAppError(error)
        client.sendMessage({ type: 'error', live, code: status, error: errorCode, message })
      },
    }
  }
}

/** Parameters as a URL would have them. */
function asTexts(query: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts = Object.entries(query).flatMap(([name, value]) =>
    value === null || value === undefined ? [] : [[name, Array.isArray(value) ? value.join(',') : String(value)]],
  )
  return Object.fromEntries(texts) as Record<string, string>
}
