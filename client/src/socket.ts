import { connectionOf, type Reply } from './connection.ts'
import type { Core } from './core.ts'
import { ApiError } from './errors.ts'
import { hear, type Listen, type Message, refuse, type Subscription, setStatus } from './subscription.ts'

/** All subscriptions over the one WebSocket of the client. */
export function listenBySocket(core: Core, subscriptions: ReadonlyMap<string, Subscription>): Listen {
  const connection = connectionOf(core)
  const all = (): Subscription[] => [...subscriptions.values()]

  async function subscribe(subscription: Subscription): Promise<void> {
    const { name: sub, table, filter, position } = subscription
    try {
      const message = { type: 'subscribe', sub, tables: [table], filter, last_id: position }
      await connection.ask<Reply & { position: string }>(message, (reply) => {
        subscription.position = reply.position
        setStatus(subscription, 'live')
      })
    } catch (error) {
      // Without an answer the connection is lost, and everything is subscribed again.
      if (!(error instanceof ApiError)) return
      if (error.error === 'unauthorized') connection.close()
      else refuse(subscription, error)
    }
  }

  connection.add({
    isNeeded: () => subscriptions.size > 0,
    onReady() {
      for (const subscription of all()) void subscribe(subscription)
    },
    onLost() {
      for (const subscription of all()) setStatus(subscription, 'connecting')
    },
    onRefused(error) {
      for (const subscription of all()) refuse(subscription, error)
    },
    onMessage(message) {
      const { type, sub } = message as Message
      if (type !== 'event' && type !== 'reset') return
      const subscription = all().find(({ name }) => name === sub)
      if (subscription) hear(subscription, message as Message)
    },
  })

  return {
    add: (subscription) => connection.need(() => void subscribe(subscription)),
    remove: ({ name: sub }) => connection.release(() => ({ type: 'unsubscribe', sub })),
    // The connection is made again when another person signs in or out.
    restart() {},
  }
}
