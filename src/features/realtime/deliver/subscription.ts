import type { LogMoment } from '../../../db/changes/moments.ts'
import { isBefore, type Position } from '../../../db/changes/position.ts'
import type { Interest } from '../subscribe/interest.ts'
import { plus, type Wanted, wants } from '../subscribe/wanted.ts'
import type { EncodedChanges } from '../visibility/encoded-change.ts'
import type { Listener } from './client.ts'

/** A part of the past that a client asked for when its subscription was already further; read up to `position`. */
export type MissedPart = { wanted: Wanted; position: Position }

/** What was committed when a client began to want these tables is none of its business, though it is told later. */
export type KnownBefore = { readonly moment: LogMoment; readonly wanted: Wanted }

/** The changes that one client wants. It is in a group, or on its way to the present. */
export class Subscription {
  readonly client: Listener
  interest: Interest
  readonly missed: MissedPart[] = []
  #knownBefore: KnownBefore[] = []
  #group: SubscriberGroup | undefined
  /** Where it joined its group, or how far it is on its way there. */
  #position: Position
  /** Whether its group is still on its way to where this one joined it. */
  #isAhead = false

  constructor(client: Listener, interest: Interest, from: Position) {
    this.client = client
    this.interest = interest
    this.#position = from
  }

  get group(): SubscriberGroup | undefined {
    return this.#group
  }

  /** Up to here everything has been delivered. */
  get position(): Position {
    if (!this.#group) return this.#position
    const { position } = this.#group
    return this.#isAhead && isBefore(position, this.#position) ? this.#position : position
  }

  set position(position: Position) {
    this.#position = position
    this.#isAhead = false
  }

  /** Parts that begin at the same position are read together, unless they are being read already. */
  miss(part: MissedPart): void {
    const last = this.missed.length > 1 ? this.missed.at(-1) : undefined
    if (last?.position === part.position) last.wanted = plus(last.wanted, part.wanted)
    else this.missed.push(part)
  }

  /** Until everything that was committed then has been passed. */
  skip(known: KnownBefore): void {
    this.#knownBefore.push(known)
  }

  /** Without what was committed before the client wanted it. */
  newIn(changes: EncodedChanges): EncodedChanges {
    if (this.#knownBefore.length === 0) return changes
    const { position } = this
    this.#knownBefore = this.#knownBefore.filter(({ moment }) => !moment.isOver(position))
    return changes.only(
      (change) =>
        !this.#knownBefore.some(({ moment, wanted }) => wants(wanted, change.key) && moment.includes(change.position)),
    )
  }

  join(group: SubscriberGroup, here: Position): void {
    this.#group = group
    this.#position = here
    this.#isAhead = group.position !== here
    group.members.add(this)
  }

  leave(): void {
    const { position } = this
    this.position = position
    this.#group?.members.delete(this)
    this.#group = undefined
  }

  /** Changes of its group, which is at `end` then. */
  deliver(changes: EncodedChanges, end: Position): void {
    const due = this.newIn(this.#isAhead ? changes.after(this.#position) : changes)
    this.#isAhead &&= isBefore(end, this.#position)
    if (due.list.length > 0) this.client.deliver(due)
  }
}

/** Subscriptions that always get the same, so that they are judged and encoded for once. */
export class SubscriberGroup {
  readonly interest: Interest
  readonly members = new Set<Subscription>()
  /** Up to here everything has been delivered. */
  position: Position

  constructor(interest: Interest, position: Position) {
    this.interest = interest
    this.position = position
  }

  deliver(changes: EncodedChanges, end: Position): void {
    if (changes.list.length > 0) for (const member of this.members) member.deliver(changes, end)
    this.position = end
  }
}
