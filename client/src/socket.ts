import { backOff, type Core, type SocketType } from './core.ts'
import { ApiError } from './errors.ts'
import { hear, type Listen, type Message, refuse, type Subscription, setStatus } from './subscription.ts'

const BEAT_MS = 25_000
const OPEN = 1

const refusal = ({ error = '', message }: Message, status = 400): ApiError =>
  new ApiError(message, {
    ...{ status, error, method: 'GET', path: '/api/realtime/ws' },
    ...{ data: undefined, requestId: undefined, retryAfter: undefined },
  })

/** All subscriptions over one WebSocket. */
export function listenBySocket(
  core: Core,
  Socket: SocketType,
  subscriptions: ReadonlyMap<string, Subscription>,
): Listen {
  const { caller } = core
  const all = (): Subscription[] => [...subscriptions.values()]
  let socket: InstanceType<SocketType> | undefined
  /** Whether the server knows the caller, so that subscriptions can be sent. */
  let isReady = false
  let isHeard = true
  let refs = 0
  let failures = 0
  let beat: ReturnType<typeof setInterval> | undefined
  let renewal: ReturnType<typeof setTimeout> | undefined
  let next: ReturnType<typeof setTimeout> | undefined
  const replies = new Map<number, (reply: Message) => void>()

  function send(message: object, onReply: (reply: Message) => void = () => {}): void {
    replies.set(++refs, onReply)
    socket?.send(JSON.stringify({ ...message, ref: refs }))
  }

  function subscribe(subscription: Subscription): void {
    const { name: sub, table, filter, position } = subscription
    send({ type: 'subscribe', sub, tables: [table], filter, last_id: position }, (reply) => {
      if (reply.status === 'ok') {
        subscription.position = reply.position
        failures = 0
        setStatus(subscription, 'live')
      } else if (reply.error === 'unauthorized')
        close() // until the next sign-in
      else refuse(subscription, refusal(reply))
    })
  }

  /** The same connection goes on with a new token. */
  async function authenticate(): Promise<void> {
    const opened = socket
    const token = await caller.token()
    if (socket !== opened) return
    if (token !== undefined) {
      send({ type: 'auth', token }, (reply) => {
        if (reply.status === 'ok') return
        caller.renew(token).then((renewed) => {
          if (renewed !== undefined) return restart()
          close()
          for (const subscription of all()) refuse(subscription, refusal(reply, 401))
        }, restart)
      })
    }
    clearTimeout(renewal)
    const left = caller.left()
    if (left < 2 ** 31) renewal = setTimeout(() => authenticate().catch(restart), Math.max(0, left) + 50)
  }

  function open(): void {
    next = undefined
    if (socket || subscriptions.size === 0) return
    const opened = new Socket(`${core.url.replace(/^http/, 'ws')}/api/realtime/ws`)
    socket = opened
    isHeard = true
    beat = setInterval(() => {
      // A connection that died without a word.
      if (!isHeard) return restart()
      isHeard = false
      if (opened.readyState === OPEN) send({ type: 'ping' })
    }, BEAT_MS)
    opened.onopen = () => {
      authenticate().then(() => {
        if (socket !== opened) return
        isReady = true
        for (const subscription of all()) subscribe(subscription)
      }, restart)
    }
    opened.onmessage = ({ data }) => {
      if (socket !== opened) return
      isHeard = true
      const message = core.parse(data as string) as Message
      const { type, ref = 0, sub } = message
      if (type === 'reply') {
        replies.get(ref)?.(message)
        replies.delete(ref)
      } else if (type === 'event' || type === 'reset') {
        const subscription = all().find(({ name }) => name === sub)
        if (subscription) hear(subscription, message)
      }
    }
    opened.onerror = () => {} // onclose follows
    opened.onclose = () => {
      if (socket === opened) restart()
    }
  }

  function close(): void {
    const old = socket
    socket = undefined
    isReady = false
    clearInterval(beat)
    clearTimeout(renewal)
    clearTimeout(next)
    next = undefined
    replies.clear()
    old?.close()
  }

  /** Everything is subscribed again from where it was. */
  function restart(): void {
    close()
    for (const subscription of all()) setStatus(subscription, 'connecting')
    next = setTimeout(open, backOff(failures++))
  }

  return {
    add(subscription) {
      if (isReady) subscribe(subscription)
      else if (!next) open()
    },
    remove({ name: sub }) {
      if (subscriptions.size === 0) close()
      else if (isReady) send({ type: 'unsubscribe', sub })
    },
    restart,
  }
}
