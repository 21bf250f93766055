import { backOff, type Core, sleep } from './core.ts'
import { ApiError, SessionEnded } from './errors.ts'
import { hear, type Listen, type Message, refuse, type Subscription, setStatus } from './subscription.ts'

/** The server gives a sign of life every 25 s. */
const SILENCE_MS = 35_000
/** A stream begins at once; where the network died, an attempt over a kept connection has no answer. */
const OPEN_MS = 10_000

/** Each subscription as an event stream read by `fetch`, where there is no WebSocket. */
export function listenByStreams(core: Core): Listen {
  const running = new Map<Subscription, AbortController>()

  /** Reads until the stream ends or `stop` aborts. */
  async function read(subscription: Subscription, stop: AbortController, onLive: () => void): Promise<void> {
    const { table: tables, filter, position } = subscription
    const headers = position === undefined ? {} : { 'last-event-id': position }
    const request = { query: { tables, filter }, as: 'response' } as const
    const { body } = await core.send<Response>('GET', '/api/realtime', request, {
      headers,
      retry: 0,
      timeout: OPEN_MS,
      signal: stop.signal,
    })
    const end = (): void => stop.abort()
    let silence = setTimeout(end, SILENCE_MS)
    const left = core.caller.left()
    // A stream ends with its token: the next one goes on where this one was.
    const renewal = left < 2 ** 31 ? setTimeout(end, Math.max(0, left) + 50) : undefined
    try {
      let text = ''
      const decoder = new TextDecoder()
      const reader = (body as ReadableStream<Uint8Array>).getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        clearTimeout(silence)
        silence = setTimeout(end, SILENCE_MS)
        text += decoder.decode(value, { stream: true })
        const events = text.split('\n\n')
        text = events.pop() ?? ''
        for (const event of events) if (running.get(subscription) === stop) take(subscription, event, onLive)
      }
    } finally {
      clearTimeout(silence)
      clearTimeout(renewal)
    }
  }

  function take(subscription: Subscription, event: string, onLive: () => void): void {
    const fields = new Map(event.split('\n').map((line) => line.split(/: ?(.*)/s).slice(0, 2) as [string, string]))
    const [kind, data, id] = ['event', 'data', 'id'].map((name) => fields.get(name))
    if (id !== undefined) subscription.position = id
    if (data === undefined) return
    const message = core.parse(data) as Message
    if (kind === 'connected') {
      onLive()
      setStatus(subscription, 'live')
    } else if (kind === 'reset' || kind === undefined)
      hear(subscription, { ...message, ...(id !== undefined && { id }) })
  }

  async function run(subscription: Subscription): Promise<void> {
    for (let failures = 0; ; failures++) {
      const stop = new AbortController()
      running.set(subscription, stop)
      const isOver = (): boolean => running.get(subscription) !== stop
      try {
        await read(subscription, stop, () => {
          failures = 0
        })
      } catch (error) {
        if (isOver() || error instanceof SessionEnded) return
        if (error instanceof ApiError && error.status < 500 && error.status !== 429) {
          // Without a session until the next sign-in.
          return error.error === 'unauthorized' ? undefined : refuse(subscription, error)
        }
      }
      if (isOver()) return
      setStatus(subscription, 'connecting')
      if (!stop.signal.aborted) await sleep(backOff(failures))
      if (isOver()) return
    }
  }

  const remove = (subscription: Subscription): void => {
    running.get(subscription)?.abort()
    running.delete(subscription)
  }
  return {
    add: (subscription) => void run(subscription),
    remove,
    restart() {
      for (const subscription of [...running.keys()]) {
        remove(subscription)
        void run(subscription)
      }
    },
  }
}
