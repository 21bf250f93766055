import { connectionOf, type Heard, refusalOf, socketOf } from './connection.ts'
import type { Core } from './core.ts'
import { ApiError } from './errors.ts'
import { followStream } from './event-stream.ts'
import { filterText } from './filter.ts'
import { toJson } from './json.ts'

export type LiveOptions = {
  /** The server refuses the list, or cannot go on with it; `unauthorized`: it begins with the next sign-in. */
  onError?: (error: ApiError) => void
  /** It is read again at most this often, in milliseconds, because it takes long. */
  onSlow?: (interval: number) => void
}

type Change = { key: unknown; at?: number; row?: unknown }
type News = {
  position?: string | undefined
  items?: unknown[]
  keys?: unknown[]
  changes?: Change[]
  interval?: number
}

type List = LiveOptions & {
  readonly collection: string
  readonly query: Readonly<Record<string, unknown>>
  readonly onRows: (rows: never) => void
  items: unknown[]
  keys: string[]
  position: string | undefined
  /** On the connection, or undefined. */
  live: number | undefined
  /** For a sign-in; `onError` was called. */
  isWaiting?: boolean
  stop?: () => void
}

/** Lists that one WebSocket takes; further ones are streams. */
const ON_SOCKET = 20

/** Takes the row of each change out, then puts the new one in. */
function apply(list: List, { position, items, keys, changes = [] }: News): void {
  list.position = position
  if (items) {
    list.items = items
    list.keys = (keys ?? []).map(toJson)
  }
  for (const { key, at, row } of changes) {
    const name = toJson(key)
    const from = list.keys.indexOf(name)
    if (from >= 0) {
      list.keys.splice(from, 1)
      list.items = list.items.filter((_, i) => i !== from)
    }
    if (at === undefined) continue
    list.keys.splice(at, 0, name)
    list.items = [...list.items.slice(0, at), row, ...list.items.slice(at)]
  }
  list.onRows(list.items as never)
}

/** Lists that are kept true. */
export function createLive(core: Core) {
  const connection = connectionOf(core)
  const lists = new Set<List>()
  const { caller } = core
  let who: string | undefined

  function hear(list: List, type: string | undefined, news: News & Partial<Heard>): void {
    if (type === 'rows' || type === 'diff') apply(list, news)
    else if (type === 'slow') list.onSlow?.(news.interval ?? 0)
    else if (type === 'error') refuse(list, refusalOf(news))
  }

  function refuse(list: List, error: ApiError): void {
    lists.delete(list)
    list.onError?.(error)
  }

  /** Until the next sign-in. */
  function wait(list: List, error: ApiError): void {
    if (!list.isWaiting) list.onError?.(error)
    list.isWaiting = true
  }

  async function open(list: List): Promise<void> {
    const { collection, query, position } = list
    try {
      const message = { type: 'live', collection, query, position, keys: true }
      await connection.ask<{ live: number }>(message, ({ live }) => {
        if (lists.has(list)) list.live = live
        else connection.release(() => ({ type: 'unlive', live }))
      })
    } catch (error) {
      if (!(error instanceof ApiError) || !lists.has(list)) return
      if (error.error !== 'unauthorized') return refuse(list, error)
      connection.close()
      for (const each of onSocket()) wait(each, error)
    }
  }

  function follow(list: List): void {
    const { collection, query } = list
    list.stop = followStream(core, {
      path: `/api/collections/${encodeURIComponent(collection)}`,
      query: { ...query, live: true, keys: true },
      position: list.position,
      onEvent(name, data) {
        hear(list, name, data as News)
        return true
      },
      onLost() {},
      onRefused: (error) => refuse(list, error),
      onWaiting: (error) => wait(list, error),
    })
  }

  const onSocket = (): List[] => [...lists].filter(({ stop }) => !stop)

  connection.add({
    isNeeded: () => onSocket().length > 0,
    onReady() {
      for (const list of onSocket()) void open(list)
    },
    onLost() {
      for (const list of lists) list.live = undefined
    },
    onMessage({ type, ...message }) {
      const { live, status } = message as News & { live?: number; status?: string }
      if (live === undefined || status) return
      for (const list of lists) if (list.live === live) hear(list, type, message as News)
    },
    onRefused(error) {
      for (const list of onSocket()) refuse(list, error)
    },
  })

  // What another person may see is another list.
  caller.onChange(() => {
    if (who === undefined || caller.who() === who) return
    who = caller.who()
    for (const list of lists) {
      list.stop?.()
      list.isWaiting = false
      apply(list, { items: [] })
      if (list.stop) follow(list)
    }
  })

  /** Calls `onRows` with all rows, at first and whenever they change, until the function that it returns is called. */
  function live(
    table: string,
    { filter, ...query }: Readonly<Record<string, unknown>> & { filter?: object },
    onRows: (rows: never) => void,
    options: LiveOptions = {},
  ): () => void {
    const list: List = {
      ...{ ...options, collection: table, query: { filter: filterText(filter), ...query }, onRows },
      ...{ items: [], keys: [], position: undefined, live: undefined },
    }
    const isStream = !socketOf(core) || onSocket().length >= ON_SOCKET
    lists.add(list)
    const begin = (): void => {
      who ??= caller.who()
      if (!lists.has(list)) return
      if (isStream) follow(list)
      else connection.need(() => void open(list))
    }
    // Its place is taken at once.
    if (isStream) list.stop = () => {}
    const loading = caller.ready()
    loading ? void loading.then(begin) : begin()
    return () => {
      if (!lists.delete(list)) return
      if (list.stop) list.stop()
      else if (list.live !== undefined) connection.release(() => ({ type: 'unlive', live: list.live }))
      else connection.release(() => ({ type: 'ping' }))
    }
  }
  return { live }
}
