import { connectionOf, type Heard, refusalOf } from './connection.ts'
import type { Core } from './core.ts'
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
type OfChannel = Heard & {
  channel?: string
  reason?: string
  client_id?: string
  joined?: Member[]
  left?: Member[]
  changed?: Member[]
  count?: number
} & ChannelMessage

/** Broadcast and presence. What was sent while the connection was lost is not heard. */
export function createChannels(core: Core) {
  const connection = connectionOf(core)
  const channels = new Map<string, Joined>()
  let self: string | undefined

  const tell = ({ members, onPresence }: Joined, count = members.size + 1): void =>
    onPresence?.([...members.values()], count)

  function end(name: string, error: ApiError): void {
    const joined = channels.get(name)
    channels.delete(name)
    joined?.onLeft?.(error)
    connection.release(() => ({ type: 'leave', channel: name }))
  }

  async function join(name: string, joined: Joined): Promise<void> {
    try {
      const message = { type: 'join', channel: name, presence: joined.presence }
      await connection.ask<{ members?: Member[]; count?: number }>(message, ({ members = [], count }) => {
        if (channels.get(name) !== joined) return
        joined.members = new Map(members.map((member) => [member.ref, member]))
        tell(joined, count)
      })
    } catch (error) {
      // Without an answer the connection is lost, and everything is joined again.
      if (error instanceof ApiError && channels.get(name) === joined) end(name, error)
    }
  }

  connection.add({
    isNeeded: () => channels.size > 0,
    onReady() {
      for (const [name, joined] of channels) void join(name, joined)
    },
    onRefused(error) {
      for (const name of [...channels.keys()]) end(name, error)
    },
    onMessage(heard) {
      const { type, channel = '', client_id, reason, event, payload, from, ...diff } = heard as OfChannel
      if (type === 'connected') self = client_id
      const joined = channels.get(channel)
      if (!joined) return
      if (type === 'message') joined.onMessage?.({ event, payload, from })
      else if (type === 'left') end(channel, refusalOf({ error: reason ?? 'forbidden', message: 'left the channel' }))
      else if (type === 'presence') {
        for (const { ref } of diff.left ?? []) joined.members.delete(ref)
        for (const member of [...(diff.joined ?? []), ...(diff.changed ?? [])]) {
          if (member.ref !== self) joined.members.set(member.ref, member)
        }
        tell(joined, diff.count)
      }
    },
  })

  /** Joins a channel, and joins it again whenever the connection was lost. */
  function channel(name: string, options: ChannelOptions = {}): Channel {
    if (channels.has(name)) throw new Error(`${name} is joined already`)
    const joined: Joined = { ...options, members: new Map() }
    channels.set(name, joined)
    connection.need(() => void join(name, joined))
    return {
      async send(event, payload, { self = false } = {}) {
        await connection.connect()
        await connection.ask({ type: 'send', channel: name, event, payload, self })
      },
      async setState(state) {
        joined.presence = state
        await connection.connect()
        await connection.ask({ type: 'presence', channel: name, state })
      },
      leave() {
        if (channels.get(name) !== joined) return
        channels.delete(name)
        connection.release(() => ({ type: 'leave', channel: name }))
      },
    }
  }
  return { channel }
}
