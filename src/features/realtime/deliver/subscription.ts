import { isBefore, type Position } from '../../../db/changes/log.ts'
import type { Interest } from '../subscribe/interest.ts'
import type { Wanted } from '../subscribe/wanted.ts'
import type { EncodedChanges } from '../visibility/encoded-change.ts'
import type { Listener } from './client.ts'

/** A part of the past that a client asked for when its subscription was already further; read up to `position`. */
export type MissedPart = { readonly wanted: Wanted; position: Position }

/** The changes that one client wants. It is in a group, or on its way to the present. */
export class Subscription {
  readonly client: Listener
  interest: Interest
  readonly missed: MissedPart[] = []
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
    const due = this.#isAhead ? changes.after(this.#position) : changes
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
