import { backOff, type Core, NEVER, type SocketType } from './core.ts'
import { ApiError } from './errors.ts'

export type Reply = {
  status: string
  code?: number
  error?: string
  message?: string
}
export type Heard = Partial<Reply> & { type: string; ref?: number }

/** What uses the connection. */
export type Part = {
  /** Whether it has anything to hear. */
  isNeeded(): boolean
  /** The server knows the caller: everything is subscribed to again. */
  onReady(): void
  onMessage(message: Heard): void
  /** There will be nothing to hear. */
  onRefused(error: ApiError): void
  onLost?: () => void
}

const BEAT_MS = 25_000
const OPEN = 1

export function refusalOf({ code = 403, error = 'forbidden', message }: Partial<Reply>): ApiError {
  return new ApiError(message, { status: code, error, method: 'GET', path: '/api/realtime/ws' })
}

export type Connection = ReturnType<typeof createConnection>

const connections = new WeakMap<Core, Connection>()

/** One WebSocket for all parts of a client that ask and hear. */
export function connectionOf(core: Core): Connection {
  const known = connections.get(core) ?? createConnection(core)
  connections.set(core, known)
  return known
}

export const socketOf = ({ options }: Core): SocketType | undefined =>
  options.WebSocket ?? (globalThis.WebSocket as SocketType | undefined)

function createConnection(core: Core) {
  const Socket = socketOf(core)
  const { caller } = core
  const parts = new Set<Part>()
  const replies = new Map<number, { resolve: (reply: Reply) => void; reject: (error: Error) => void }>()
  let socket: InstanceType<SocketType> | undefined
  let ready: Promise<void> | undefined
  let isReady = false
  let isHeard = true
  let beat: ReturnType<typeof setInterval> | undefined
  let refs = 0
  let failures = 0
  let next: ReturnType<typeof setTimeout> | undefined
  let renewal: ReturnType<typeof setTimeout> | undefined
  let who = caller.who()

  const isNeeded = (): boolean => [...parts].some((part) => part.isNeeded())

  /**
   * Rejects with an ApiError what the server refuses, and with another error what had no answer. `onReply`: before any
   * message that follows is heard.
   */
  function ask<T>(message: object, onReply?: (reply: Reply & T) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      if (socket?.readyState !== OPEN) return reject(new Error('not connected'))
      const answered = (reply: Reply): void => {
        if (reply.status === 'ok') {
          // A connection that is lost again before anything is heard on it is made less and less often.
          if (onReply) failures = 0
          onReply?.(reply as Reply & T)
          resolve()
        } else reject(refusalOf(reply))
      }
      replies.set(++refs, { resolve: answered, reject })
      socket.send(JSON.stringify({ ...message, ref: refs }))
    })
  }

  async function authenticate(): Promise<void> {
    const token = await caller.token()
    if (token !== undefined) {
      await ask({ type: 'auth', token }).catch(async (error: unknown) => {
        if (!(error instanceof ApiError)) throw error
        const renewed = await caller.renew(token)
        if (renewed === undefined) throw error
        await ask({ type: 'auth', token: renewed })
      })
    }
    clearTimeout(renewal)
    const left = caller.left()
    if (left < NEVER) renewal = setTimeout(() => authenticate().catch(restart), Math.max(0, left) + 50)
  }

  /** Resolves when the server knows the caller. */
  function connect(): Promise<void> {
    clearTimeout(next)
    next = undefined
    ready ??= new Promise<void>((resolve, reject) => {
      if (!Socket) return reject(new Error('there is no WebSocket here'))
      const opened = new Socket(`${core.url.replace(/^http/, 'ws')}/api/realtime/ws`)
      socket = opened
      isHeard = true
      beat = setInterval(() => {
        // A connection that died without a word.
        if (!isHeard) return restart()
        isHeard = false
        ask({ type: 'ping' }).catch(() => {})
      }, BEAT_MS)
      opened.onopen = () => {
        Promise.resolve(caller.ready())
          .then(authenticate)
          .then(() => {
            if (socket !== opened) return
            isReady = true
            resolve()
            for (const part of parts) part.onReady()
          })
          .catch((error: unknown) => {
            reject(error)
            if (!(error instanceof ApiError)) return restart()
            for (const part of parts) part.onRefused(error)
            close()
          })
      }
      opened.onmessage = ({ data }) => {
        if (socket !== opened) return
        isHeard = true
        const message = core.parse(data as string) as Heard
        if (message.type === 'reply') {
          const { ref = 0 } = message
          replies.get(ref)?.resolve(message as Reply)
          replies.delete(ref)
        }
        for (const part of parts) part.onMessage(message)
      }
      opened.onerror = () => {} // onclose follows
      opened.onclose = () => {
        reject(new Error('the connection was lost'))
        if (socket === opened) restart()
      }
    })
    ready.catch(() => {})
    return ready
  }

  function close(): void {
    const old = socket
    socket = undefined
    ready = undefined
    isReady = false
    clearInterval(beat)
    clearTimeout(next)
    next = undefined
    clearTimeout(renewal)
    for (const { reject } of replies.values()) reject(new Error('the connection was lost'))
    replies.clear()
    old?.close()
  }

  function restart(): void {
    close()
    for (const part of parts) part.onLost?.()
    if (isNeeded()) next = setTimeout(connect, backOff(failures++))
  }

  // What another person may hear is another thing.
  caller.onChange(() => {
    if (caller.who() === who) return
    who = caller.who()
    if (socket || isNeeded()) restart()
  })

  return {
    add: (part: Part): void => void parts.add(part),
    ask,
    connect,
    /** Until the next sign-in. */
    close,
    /** Something more is to be heard: `begin` asks for it, unless the connection that is being made does. */
    need(begin: () => void): void {
      if (isReady) begin()
      else if (!next) void connect()
    },
    /** Something is not needed any more: `end` says so. */
    release(end: () => object): void {
      if (!isNeeded()) close()
      else if (isReady) ask(end()).catch(() => {})
    },
  }
}
