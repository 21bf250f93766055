import { backOff, type Core, type SocketType } from './core.ts'
import { ApiError } from './errors.ts'

/** `from`: the id of a user, null for the server's operator. `ref`: the connection. */
export type Member = { from: string | null; state: unknown; ref: string }

export type ChannelMessage = { event: string; payload: unknown; from: string | null }

export type ChannelOptions = {
  /** What the others are told of this member. */
  presence?: Readonly<Record<string, unknown>>
  onMessage?: (message: ChannelMessage) => void
  /** The others who are there, whenever that changes. `count`: with those who are not listed and this one. */
  onPresence?: (members: readonly Member[], count: number) => void
  /** The server refuses the channel, or has put this member out: there is nothing to hear any more. */
  onLeft?: (error: ApiError) => void
}

export type Channel = {
  /** Resolves when the server has taken it. It is delivered at most once. */
  send(event: string, payload?: unknown, options?: { self?: boolean }): Promise<void>
  setState(state: Readonly<Record<string, unknown>>): Promise<void>
  leave(): void
}

type Joined = ChannelOptions & { members: Map<string, Member> }
type Reply = { status: string; code?: number; error?: string; message?: string; members?: Member[]; count?: number }
type Heard = Reply & {
  type: string
  ref?: number
  channel?: string
  reason?: string
  client_id?: string
  joined?: Member[]
  left?: Member[]
  changed?: Member[]
} & ChannelMessage

const BEAT_MS = 25_000
const OPEN = 1

function refusal({ code = 403, error = 'forbidden', message }: Partial<Reply>): ApiError {
  const request = {
    method: 'GET',
    path: '/api/realtime/ws',
    data: undefined,
    requestId: undefined,
    retryAfter: undefined,
  }
  return new ApiError(message, { status: code, error, ...request })
}

/** Broadcast and presence, over one WebSocket for all channels. */
export function createChannels(core: Core) {
  const Socket = core.options.WebSocket ?? (globalThis.WebSocket as SocketType | undefined)
  const { caller } = core
  const channels = new Map<string, Joined>()
  const replies = new Map<number, { resolve: (reply: Reply) => void; reject: (error: Error) => void }>()
  let socket: InstanceType<SocketType> | undefined
  let ready: Promise<void> | undefined
  let isReady = false
  let isHeard = true
  let beat: ReturnType<typeof setInterval> | undefined
  let self: string | undefined
  let refs = 0
  let failures = 0
  let next: ReturnType<typeof setTimeout> | undefined
  let renewal: ReturnType<typeof setTimeout> | undefined
  let who = caller.who()

  function ask(message: object): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (socket?.readyState !== OPEN) return reject(new Error('not connected'))
      replies.set(++refs, { resolve, reject })
      socket.send(JSON.stringify({ ...message, ref: refs }))
    }).then((reply) => {
      if ((reply as Reply).status !== 'ok') throw refusal(reply as Reply)
      return reply as Reply
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
    if (left < 2 ** 31) renewal = setTimeout(() => authenticate().catch(restart), Math.max(0, left) + 50)
  }

  const tell = ({ members, onPresence }: Joined, count = members.size + 1): void =>
    onPresence?.([...members.values()], count)

  function end(name: string, error: ApiError): void {
    const joined = channels.get(name)
    channels.delete(name)
    joined?.onLeft?.(error)
    if (channels.size === 0) close()
  }

  async function join(name: string, joined: Joined): Promise<void> {
    try {
      const { members = [], count } = await ask({ type: 'join', channel: name, presence: joined.presence })
      if (channels.get(name) !== joined) return
      failures = 0
      joined.members = new Map(members.map((member) => [member.ref, member]))
      tell(joined, count)
    } catch (error) {
      // Without an answer the connection is lost, and everything is joined again.
      if (error instanceof ApiError && channels.get(name) === joined) end(name, error)
    }
  }

  function hear(message: Heard): void {
    const { type, ref = 0, channel = '' } = message
    if (type === 'connected') self = message.client_id
    if (type === 'reply') {
      replies.get(ref)?.resolve(message)
      replies.delete(ref)
    }
    const joined = channels.get(channel)
    if (!joined) return
    if (type === 'message') joined.onMessage?.({ event: message.event, payload: message.payload, from: message.from })
    else if (type === 'left')
      end(channel, refusal({ error: message.reason ?? 'forbidden', message: 'left the channel' }))
    else if (type === 'presence') {
      for (const { ref } of message.left ?? []) joined.members.delete(ref)
      for (const member of [...(message.joined ?? []), ...(message.changed ?? [])]) {
        if (member.ref !== self) joined.members.set(member.ref, member)
      }
      tell(joined, message.count)
    }
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
            for (const [name, joined] of channels) void join(name, joined)
          })
          .catch((error: unknown) => {
            reject(error)
            if (!(error instanceof ApiError)) return restart()
            for (const name of [...channels.keys()]) end(name, error)
            close()
          })
      }
      opened.onmessage = ({ data }) => {
        isHeard = true
        if (socket === opened) hear(core.parse(data as string) as Heard)
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

  /** All channels are joined again. What was sent meanwhile is not heard. */
  function restart(): void {
    close()
    if (channels.size > 0) next = setTimeout(connect, backOff(failures++))
  }

  // What another person may hear is another thing.
  caller.onChange(() => {
    if (caller.who() === who) return
    who = caller.who()
    if (socket) restart()
  })

  /** Joins a channel, and joins it again whenever the connection was lost. */
  function channel(name: string, options: ChannelOptions = {}): Channel {
    if (channels.has(name)) throw new Error(`${name} is joined already`)
    const joined: Joined = { ...options, members: new Map() }
    channels.set(name, joined)
    // A connection that is being made joins all channels when it is there.
    if (isReady) void join(name, joined)
    else if (!next) void connect()
    return {
      async send(event, payload, { self = false } = {}) {
        await connect()
        await ask({ type: 'send', channel: name, event, payload, self })
      },
      async setState(state) {
        joined.presence = state
        await connect()
        await ask({ type: 'presence', channel: name, state })
      },
      leave() {
        if (channels.get(name) !== joined) return
        channels.delete(name)
        if (channels.size === 0) close()
        else ask({ type: 'leave', channel: name }).catch(() => {})
      },
    }
  }
  return { channel }
}
