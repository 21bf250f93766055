import { AppError, reasonOf, unavailable } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import { callerKey, type Identity, ownerOf, userIdOf } from '../../../core/identity.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Db, Notifications } from '../../../db/db.ts'
import { Loop } from '../../../db/loop.ts'
import type { Sql } from '../../../db/sql.ts'
import type { RealtimeClient } from '../deliver/client.ts'
import { messageFrame } from '../deliver/messages.ts'
import type { CallerQueue } from '../visibility/caller-queue.ts'
import { isTransient } from '../visibility/table-changes.ts'
import { matcherOf, payloadText, requireChannelName, requireChannels, requireEventName } from './limits.ts'
import { type Place, Presence, type PresenceDiff, type Present } from './presence.ts'
import { ChannelTraffic, HeldBytes, MessageRate } from './rates.ts'
import { Relay, type Relayable } from './relay.ts'
import { ChannelRights, type ChannelVerdict } from './rights.ts'
import type { ChannelSurvey } from './sql.ts'

export type ChannelConfig = { open_channels: readonly string[]; channel_rate: number; channel_bytes: number }

/** A connection that has channels. */
export type ChannelUser = {
  readonly who: Identity
  readonly client: Pick<RealtimeClient, 'write' | 'drop'>
  /** Those it has joined. */
  readonly channels: readonly string[]
  readonly hasRights: boolean
  /** What it may send is asked again. */
  forgetRights(): void
  putOut(channel: string, reason: 'forbidden' | 'removed'): void
  removed(channel: string): void
}

/** The place of a connection of this process. */
export type LocalPlace = Place & {
  readonly session: ChannelUser
  /** Frames that came before the reply to `join`; undefined after it. */
  early: Buffer[] | undefined
}

export type ChannelMessage = { channel: string; event: string; payload?: unknown }

type Deps = {
  db: Db & Notifications
  key: Buffer
  observe: Observe
  policies: CallerQueue
  config: ChannelConfig
}

/** Rights are asked again this often, while policies read tables. */
const RECHECK_MS = 600
/** In any case: functions read tables that are not known, and the time goes on. */
const RECHECK_ALL_MS = 28_000
const MAX_EARLY = 1_000
const COUNT_MS = 1_000
const MAX_COUNTS = 10_000

/** Broadcast and presence: connections of this process, and what the others say. */
export class Channels {
  readonly rights: ChannelRights
  readonly held = new HeldBytes()
  readonly #observe: Observe
  readonly #relay: Relay
  readonly #presence: Presence
  readonly #rate: MessageRate
  readonly #traffic: ChannelTraffic
  readonly #places = new Map<string, Set<LocalPlace>>()
  readonly #sessions = new Set<ChannelUser>()
  readonly #asking = new Set<string>()
  readonly #counts = new Map<string, { count: number; until: number }>()
  #started: Promise<void> | undefined
  #rechecks: Loop | undefined
  /** The policies of the last look. */
  #policies = ''
  #allAskedAt = 0
  #isForced = false

  constructor({ db, key, observe, policies, config }: Deps) {
    this.#observe = observe
    this.rights = new ChannelRights({ db, policies, isOpen: matcherOf(config.open_channels) })
    this.#relay = new Relay({
      ...{ db, key, observe },
      hear: (message, node) => this.#hear(message, node),
      onGap: () => this.recheck(),
    })
    this.#presence = new Presence({
      ...{ db, observe, relay: this.#relay },
      places: () => [...this.#places.values()].flatMap((places) => [...places]),
      onDiff: (diff, joining) => this.#deliverDiff(diff, joining),
    })
    this.#rate = new MessageRate(db, config.channel_rate, () => this.#presence.areOthers)
    this.#traffic = new ChannelTraffic(config.channel_bytes)
  }

  /** With the first use: a server without channels pays nothing for them. */
  ready(): Promise<void> {
    this.#started ??= this.#start().catch((error: unknown) => {
      this.#started = undefined
      throw error
    })
    return this.#started
  }

  async stop(): Promise<void> {
    await this.#started?.catch(() => undefined)
    await this.#rechecks?.stop()
    await this.#presence.stop()
    await this.#relay.stop()
  }

  open(session: ChannelUser): void {
    this.#sessions.add(session)
  }

  close(session: ChannelUser): void {
    this.#sessions.delete(session)
  }

  /** Asks about one thing, and remembers to ask again when the policies have changed since the last look. */
  async verdict(who: Identity, channel: string, event?: string): Promise<ChannelVerdict> {
    const survey = await this.rights.survey()
    if (textOf(survey) !== this.#policies) this.recheck()
    const kind = event === undefined ? 'select' : 'insert'
    const [verdict = 'forbidden'] = await this.rights.ask(who, [{ kind, channel, event: event ?? null }], survey)
    return verdict
  }

  /** All rights are asked again now. */
  recheck(): void {
    this.#isForced = true
    this.#rechecks?.poke()
  }

  enter(place: LocalPlace): Promise<Present> {
    getOrCreate(this.#places, place.channel, () => new Set()).add(place)
    return this.#presence.enter(place)
  }

  isTaken(place: LocalPlace): boolean {
    return this.#places.get(place.channel)?.has(place) === true
  }

  changed(place: LocalPlace): void {
    this.#presence.change(place)
  }

  leave(place: LocalPlace): void {
    const places = this.#places.get(place.channel)
    if (!places?.delete(place)) return
    if (places.size === 0) this.#places.delete(place.channel)
    this.#presence.leave(place)
  }

  /** Counts a message on its caller, before anything else is done for it. The operator is not limited. */
  async count(who: Identity): Promise<void> {
    await this.ready()
    const payer = ownerOf(who)
    if (payer !== undefined) await this.#rate.take(payer)
  }

  /** To all members of the channel but `except`. The caller's right is known. */
  async deliver(
    who: Identity,
    { channel, event, payload = null }: ChannelMessage,
    except?: ChannelUser,
  ): Promise<void> {
    if (this.#relay.isFull) throw unavailable('too many messages wait for other processes', 1, 'server_busy')
    const from = userIdOf(who)
    const frame = messageFrame({ type: 'message', channel, event, payload, from })
    this.#traffic.spend(channel, frame.length, await this.#receivers(channel))
    this.#send(channel, frame, except)
    if (this.#presence.areOthers) this.#relay.publish({ type: 'message', channel, event, payload, from })
  }

  /** Without a connection. */
  async post(who: Identity, message: ChannelMessage): Promise<void> {
    const { channel, event, payload } = message
    requireChannels(who, 'send')
    requireChannelName(channel)
    requireEventName(event)
    payloadText(payload)
    await this.count(who)
    requireVerdict(await this.verdict(who, channel, event), 'send to')
    await this.deliver(who, message)
  }

  /** As a statement for the transaction that bars the user. */
  tellOfRemoval(channel: string, user: string): Sql {
    return this.#relay.tell([{ type: 'remove', channel, user }])
  }

  /** Puts the connections of a user here out of the channel. */
  remove(channel: string, user: string): void {
    for (const session of this.#sessions) if (userIdOf(session.who) === user) session.removed(channel)
  }

  async #start(): Promise<void> {
    await this.#relay.start()
    await this.#presence.start()
    this.#rechecks = new Loop({
      step: () => this.#recheck(),
      everyMs: RECHECK_MS,
      onFailure: (error) => this.#observe({ message: 'channels: rights not asked', attrs: { error: reasonOf(error) } }),
    })
  }

  #hear(message: Relayable, node: string): void {
    this.#presence.met(node)
    if (message.type === 'message') {
      const frame = messageFrame(message)
      const { channel } = message
      this.#traffic.note(
        channel,
        frame.length,
        this.#counts.get(channel)?.count ?? this.#places.get(channel)?.size ?? 0,
      )
      this.#send(channel, frame)
    } else if (message.type === 'presence') {
      const { channel, left } = message
      const gone = new Set(left.map(({ ref }) => ref))
      for (const place of this.#places.get(channel) ?? []) if (gone.has(place.ref)) this.#presence.again(place)
      this.#deliverDiff(message, new Set())
    } else if (message.type === 'remove') this.remove(message.channel, message.user)
  }

  /** Those who have no reply yet have not joined. */
  #send(channel: string, frame: Buffer, except?: ChannelUser): void {
    for (const { session, early } of this.#places.get(channel) ?? []) {
      if (!early && session !== except) session.client.write(frame)
    }
  }

  #deliverDiff(diff: PresenceDiff, joining: ReadonlySet<string>): void {
    const places = this.#places.get(diff.channel)
    if (!places) return
    const frame = messageFrame(diff)
    for (const { ref, channel, session, early } of places) {
      if (joining.has(`${ref} ${channel}`)) continue
      if (!early) session.client.write(frame)
      else if (early.push(frame) > MAX_EARLY) session.client.drop()
    }
  }

  async #receivers(channel: string): Promise<number> {
    if (!this.#presence.areOthers) return this.#places.get(channel)?.size ?? 0
    const now = performance.now()
    const known = this.#counts.get(channel)
    if (known && known.until > now) return known.count
    const count = await this.#presence.countOf(channel)
    if (this.#counts.size > MAX_COUNTS) this.#counts.clear()
    this.#counts.set(channel, { count, until: now + COUNT_MS })
    return count
  }

  async #recheck(): Promise<undefined> {
    const sessions = [...this.#sessions].filter((session) => session.hasRights)
    if (sessions.length === 0) return
    const isForced = this.#isForced
    this.#isForced = false
    const survey = await this.rights.survey().catch((error: unknown) => {
      this.#isForced = isForced
      throw error
    })
    const now = performance.now()
    const isOld = now - this.#allAskedAt >= RECHECK_ALL_MS
    const isChanged = textOf(survey) !== this.#policies
    const banned = new Set(survey.bans.map(([, user]) => user))
    const isAll = isForced || isChanged || isOld || survey.readsTables
    if (isAll) this.#allAskedAt = now
    this.#policies = textOf(survey)
    const groups = new Map<string, ChannelUser[]>()
    for (const session of sessions) {
      if (!isAll && !banned.has(userIdOf(session.who) ?? '')) continue
      session.forgetRights()
      if (session.channels.length > 0) getOrCreate(groups, callerKey(session.who), () => []).push(session)
    }
    // A caller whose policies are slow is waited for by no other.
    for (const [key, group] of groups) {
      // The answer that is under way may be that of older policies.
      if (this.#asking.has(key)) this.#isForced = true
      else void this.#askAgain(key, group, survey)
    }
  }

  async #askAgain(key: string, sessions: readonly ChannelUser[], survey: ChannelSurvey): Promise<void> {
    const [first] = sessions
    if (!first) return
    this.#asking.add(key)
    const channels = [...new Set(sessions.flatMap((session) => session.channels))]
    try {
      const questions = channels.map((channel) => ({ kind: 'select', channel, event: null }) as const)
      const verdicts = await this.rights.ask(first.who, questions, survey)
      for (const [i, channel] of channels.entries()) {
        const verdict = verdicts[i] ?? 'forbidden'
        if (verdict === 'allowed') continue
        // A new token since then is asked about by itself.
        for (const session of sessions) if (callerKey(session.who) === key) session.putOut(channel, verdict)
      }
    } catch (error) {
      if (!isTransient(error)) {
        this.#observe({ message: 'channels: rights not asked', attrs: { error: reasonOf(error) } })
      }
      this.#isForced = true
    } finally {
      this.#asking.delete(key)
    }
  }
}

const textOf = ({ policies }: ChannelSurvey): string => JSON.stringify(policies)

export function requireVerdict(verdict: ChannelVerdict, to: 'join' | 'send to'): void {
  if (verdict === 'removed') throw new AppError('forbidden', 'removed from this channel')
  if (verdict !== 'allowed') throw new AppError('forbidden', `not allowed to ${to} this channel`)
}
