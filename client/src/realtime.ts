import { socketOf } from './connection.ts'
import type { Core } from './core.ts'
import { listenBySocket } from './socket.ts'
import { listenByStreams } from './stream.ts'
import { type Subscription, setStatus, type Watcher } from './subscription.ts'

export type { Action, Change, Status, Watcher } from './subscription.ts'

export type Realtime = ReturnType<typeof createRealtime>

/** Changes of rows as they are committed: none missed, none twice, in order. */
export function createRealtime(core: Core) {
  const subscriptions = new Map<string, Subscription>()
  const listen = socketOf(core) ? listenBySocket(core, subscriptions) : listenByStreams(core)
  let names = 0
  let who: string | undefined

  // What another person may hear is another thing.
  core.caller.onChange(() => {
    const now = core.caller.who()
    if (who === undefined || now === who) return
    who = now
    for (const subscription of subscriptions.values()) {
      subscription.position = undefined
      setStatus(subscription, 'connecting')
      if (now) for (const { onReset } of subscription.watchers) onReset?.()
    }
    listen.restart()
  })

  /** Returns a function that ends it. */
  function watch(table: string, filter: string | undefined, watcher: Watcher): () => void {
    const key = JSON.stringify([table, filter])
    const known = subscriptions.get(key)
    const subscription: Subscription = known ?? {
      ...{ name: String(++names), table, filter, watchers: new Set(), position: undefined, status: 'connecting' },
    }
    subscriptions.set(key, subscription)
    subscription.watchers.add(watcher)
    watcher.onStatus?.(subscription.status)
    const begin = (): void => {
      who ??= core.caller.who()
      if (subscriptions.get(key) === subscription) listen.add(subscription)
    }
    const loading = core.caller.ready()
    if (!known) loading ? void loading.then(begin) : begin()
    return () => {
      if (!subscription.watchers.delete(watcher) || subscription.watchers.size > 0) return
      subscriptions.delete(key)
      listen.remove(subscription)
    }
  }
  return { watch }
}
