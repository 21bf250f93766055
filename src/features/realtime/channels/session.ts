import { AppError, badRequest } from '../../../core/errors.ts'
import { type Identity, ownerOf, userIdOf } from '../../../core/identity.ts'
import * as t from '../../../core/json-type.ts'
import { readBody } from '../../../http/contract.ts'
import type { SocketClient } from '../deliver/web-socket.ts'
import { type Channels, type ChannelUser, type LocalPlace, requireVerdict } from './channels.ts'
import {
  MAX_CHANNELS,
  MAX_EVENTS,
  payloadText,
  requireChannelName,
  requireChannels,
  requireEventName,
  STATE_CHANGES_PER_SECOND,
  stateText,
} from './limits.ts'
import { Pace } from './rates.ts'

const joinFields = t.object({ channel: t.string(), presence: t.optional(t.row) })
const sendFields = t.object({
  channel: t.string(),
  event: t.string(),
  payload: t.optional(t.any()),
  self: t.optional(t.boolean()),
})
const presenceFields = t.object({ channel: t.string(), state: t.optional(t.row) })
const leaveFields = t.object({ channel: t.string() })

/** Kept besides the text of names and states. */
const PLACE_BYTES = 512
const RIGHT_BYTES = 128
/** Rights to send that a connection keeps; the oldest is asked about again. */
const MAX_RIGHTS = 1_000

type Held = LocalPlace & { readonly pace: Pace; bytes: number }

/** The channels of one connection. Its messages come one after the other. */
export class ChannelSession implements ChannelUser {
  readonly client: SocketClient
  readonly #ref: string
  readonly #channels: Channels
  readonly #places = new Map<string, Held>()
  /** Channel and event, and the bytes that are held for it. */
  readonly #rights = new Map<string, number>()
  readonly #events = new Set<string>()
  /** On whom what is held counts; stays when the token changes. */
  #owner: string | undefined

  /** `ref`: the name of the connection for the other members. */
  constructor(client: SocketClient, ref: string, channels: Channels) {
    this.client = client
    this.#ref = ref
    this.#channels = channels
  }

  get who(): Identity {
    return this.client.who
  }

  get channels(): string[] {
    return [...this.#places.keys()]
  }

  get hasRights(): boolean {
    return this.#places.size > 0 || this.#rights.size > 0
  }

  /** Resolves to the fields of the reply, and calls it before anything else is said of the channel. */
  async join(fields: object, reply: (more: object) => void): Promise<void> {
    const { channel, presence } = readBody(joinFields, fields)
    const { who } = this
    requireChannels(who, 'hear')
    requireChannelName(channel)
    const state = stateText(presence)
    if (this.#places.has(channel)) throw new AppError('conflict', 'already joined')
    if (this.#places.size >= MAX_CHANNELS) throw badRequest(`too many channels: max ${MAX_CHANNELS}`)
    await this.#channels.ready()
    requireVerdict(await this.#channels.verdict(who, channel), 'join')
    if (this.client.closed) return
    const bytes = PLACE_BYTES + 2 * channel.length + state.length
    const pace = new Pace(STATE_CHANGES_PER_SECOND)
    const place: Held = { channel, ref: this.#ref, from: userIdOf(who), state, session: this, early: [], pace, bytes }
    this.#hold(bytes)
    this.#places.set(channel, place)
    this.#channels.open(this)
    try {
      const { members, count } = await this.#channels.enter(place)
      if (!this.#channels.isTaken(place)) return requireVerdict('removed', 'join')
      reply({ members: members.filter(({ ref }) => ref !== this.#ref), count })
      for (const frame of place.early ?? []) this.client.write(frame)
      place.early = undefined
    } catch (error) {
      this.#drop(place)
      throw error
    }
  }

  async send(fields: object): Promise<void> {
    const { self, ...message } = readBody(sendFields, fields)
    const { channel, event, payload } = message
    const { who } = this
    requireChannels(who, 'send')
    requireChannelName(channel)
    requireEventName(event)
    payloadText(payload)
    await this.#channels.count(who)
    await this.#requireSend(who, channel, event)
    await this.#channels.deliver(who, message, self ? undefined : this)
  }

  async changeState(fields: object): Promise<void> {
    const { channel, state = null } = readBody(presenceFields, fields)
    const text = stateText(state)
    const place = this.#places.get(channel)
    if (!place) throw badRequest('not joined')
    place.pace.take()
    // It goes to every member, as a message does.
    await this.#channels.count(this.who)
    if (!this.#channels.isTaken(place)) throw badRequest('not joined')
    this.#hold(text.length - place.state.length)
    place.bytes += text.length - place.state.length
    place.state = text
    this.#channels.changed(place)
  }

  leave(fields: object): void {
    const place = this.#places.get(readBody(leaveFields, fields).channel)
    if (place) this.#drop(place)
  }

  /** The connection has another token of the same user. */
  tokenChanged(): void {
    this.forgetRights()
    try {
      requireChannels(this.who, 'hear')
      if (this.#places.size > 0) this.#channels.recheck()
    } catch {
      for (const channel of this.channels) this.putOut(channel, 'forbidden')
    }
  }

  /** By the operator. */
  removed(channel: string): void {
    this.forgetRights()
    this.putOut(channel, 'removed')
  }

  putOut(channel: string, reason: 'forbidden' | 'removed'): void {
    const place = this.#places.get(channel)
    if (!place) return
    this.#drop(place)
    if (!place.early) this.client.sendMessage({ type: 'left', channel, reason })
  }

  forgetRights(): void {
    for (const bytes of this.#rights.values()) this.#hold(-bytes)
    this.#rights.clear()
  }

  close(): void {
    for (const place of this.#places.values()) this.#drop(place)
    this.forgetRights()
    this.#channels.close(this)
  }

  async #requireSend(who: Identity, channel: string, event: string): Promise<void> {
    const key = `${channel}\0${event}`
    if (this.#rights.has(key)) return
    if (!this.#events.has(event) && this.#events.size >= MAX_EVENTS)
      throw badRequest(`too many event names: max ${MAX_EVENTS}`)
    requireVerdict(await this.#channels.verdict(who, channel, event), 'send to')
    if (this.client.closed) return
    this.#events.add(event)
    const [oldest] = this.#rights.size >= MAX_RIGHTS ? this.#rights : []
    if (oldest) {
      this.#rights.delete(oldest[0])
      this.#hold(-oldest[1])
    }
    const bytes = RIGHT_BYTES + 2 * key.length
    this.#hold(bytes)
    this.#rights.set(key, bytes)
    this.#channels.open(this)
  }

  #drop(place: Held): void {
    if (this.#places.get(place.channel) !== place) return
    this.#places.delete(place.channel)
    this.#hold(-place.bytes)
    this.#channels.leave(place)
  }

  #hold(bytes: number): void {
    this.#owner ??= ownerOf(this.who) ?? ''
    this.#channels.held.hold(this.#owner, bytes)
  }
}
