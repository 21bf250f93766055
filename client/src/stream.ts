import type { Core } from './core.ts'
import { followStream } from './event-stream.ts'
import { hear, type Listen, type Message, refuse, type Subscription, setStatus } from './subscription.ts'

/** Each subscription as an event stream read by `fetch`, where there is no WebSocket. */
export function listenByStreams(core: Core): Listen {
  const running = new Map<Subscription, () => void>()

  function add(subscription: Subscription): void {
    const { table: tables, filter } = subscription
    const stop = followStream(core, {
      path: '/api/realtime',
      query: { tables, filter },
      get position() {
        return subscription.position
      },
      set position(position) {
        subscription.position = position
      },
      onEvent(name, data, id) {
        if (name === 'connected') setStatus(subscription, 'live')
        else if (name === 'reset' || name === undefined)
          hear(subscription, { ...(data as Message), ...(id !== undefined && { id }) })
        return name === 'connected'
      },
      onLost: () => setStatus(subscription, 'connecting'),
      onRefused: (error) => refuse(subscription, error),
    })
    running.set(subscription, stop)
  }

  const remove = (subscription: Subscription): void => {
    running.get(subscription)?.()
    running.delete(subscription)
  }
  return {
    add,
    remove,
    restart() {
      for (const subscription of [...running.keys()]) {
        remove(subscription)
        add(subscription)
      }
    },
  }
}
