import type { Clock } from '../../core/clock.ts'
import { AppError, reasonOf } from '../../core/errors.ts'
import { getOrCreate } from '../../core/get-or-create.ts'
import type { Observe } from '../../core/observe.ts'
import type { Change, Follower } from '../../db/changes/log.ts'
import type { LogMoment } from '../../db/changes/moments.ts'
import type { Position } from '../../db/changes/position.ts'
import { catchUp } from './deliver/catch-up.ts'
import { CheckLoop } from './deliver/check-loop.ts'
import type { Listener } from './deliver/client.ts'
import { type FeedDeps, LogFeed } from './deliver/log-feed.ts'
import type { PageReader, PageSource } from './deliver/pages.ts'
import { type KnownBefore, type MissedPart, SubscriberGroup, Subscription } from './deliver/subscription.ts'
import type { Interest } from './subscribe/interest.ts'
import { EVERYTHING } from './subscribe/wanted.ts'
import type { Verdict } from './visibility/batch-view.ts'

const IDLE_MS = 30_000
/** The check loop of all interests without a filter: the operator wrote the policies, so they are checked together. */
const TOGETHER = ''

/** `isSlow`: whether the policies of this payer were slow lately. */
type HubDeps = FeedDeps & { clock: Clock; observe: Observe; isSlow: (payer: string) => boolean }

/** Where a subscription begins. */
type Start = { readonly from: Position; readonly isReset: boolean; readonly moment: LogMoment | undefined }

/**
 * Page of the log → what each group of subscriptions may see of it → their clients. A group is level with the log, or a
 * check loop brings it there; a subscription that comes from the past catches up alone and joins its group when it is
 * level. The log is read as long as there are subscriptions.
 */
export class Hub implements PageSource {
  readonly #feed: LogFeed
  readonly #clock: Clock
  readonly #observe: Observe
  readonly #subscriptions = new Set<Subscription>()
  readonly #groups = new Map<string, SubscriberGroup>()
  /** By payer for interests with a filter or with slow policies: each waits for its own alone. */
  readonly #loops = new Map<string, CheckLoop>()
  readonly #isSlow: (payer: string) => boolean
  readonly #readers = new Set<PageReader>()
  #follower: Promise<Follower> | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #stopped = false

  constructor({ clock, observe, isSlow, ...deps }: HubDeps) {
    this.#feed = new LogFeed(deps)
    this.#isSlow = isSlow
    this.#clock = clock
    this.#observe = observe
  }

  /**
   * Where a subscription begins: at the position its client asks for, if the log knows that one, else at the present.
   * `moment`: what is committed already and has yet to be read; looked up unless nothing `isNew`.
   */
  async startAt(position: Position | undefined, isNew = true): Promise<Start> {
    await this.#follow()
    const isKnown = position !== undefined && (await this.#feed.isKnown(position))
    if (isKnown) return { from: position, isReset: false, moment: undefined }
    const moment = isNew ? await this.#feed.unreadCommits() : undefined
    return { from: this.#feed.here, isReset: position !== undefined, moment }
  }

  /** Everything up to here is committed, and pages that come after are told to readers. */
  get here(): Position {
    return this.#feed.here
  }

  /** The log is read until the answer is called. */
  async attach(reader: PageReader): Promise<() => void> {
    this.#readers.add(reader)
    const detach = (): void => {
      this.#readers.delete(reader)
      this.#stopIfIdle()
    }
    try {
      await this.#follow()
      return detach
    } catch (error) {
      detach()
      throw error
    }
  }

  subscribe(client: Listener, interest: Interest, { from, moment }: Omit<Start, 'isReset'>): Subscription {
    clearTimeout(this.#idleTimer)
    const subscription = new Subscription(client, interest, from)
    if (moment) subscription.skip({ moment, wanted: EVERYTHING })
    this.#subscriptions.add(subscription)
    this.#bring(subscription)
    return subscription
  }

  /**
   * From the position that is returned, the subscription has another interest; of what stays, nothing is lost or sent
   * twice. `missed` begins at an earlier position, and is delivered first; what was `known` before is not delivered.
   */
  change(
    subscription: Subscription,
    interest: Interest,
    { missed, known }: { missed?: MissedPart | undefined; known?: KnownBefore | undefined } = {},
  ): Position {
    const isSame = interest.key === subscription.interest.key && !missed
    subscription.interest = interest
    if (missed) subscription.miss(missed)
    if (known) subscription.skip(known)
    if (!isSame && subscription.group) {
      this.#leave(subscription)
      this.#bring(subscription)
    }
    return subscription.position
  }

  unsubscribe(subscription: Subscription): void {
    this.#subscriptions.delete(subscription)
    this.#leave(subscription)
    this.#stopIfIdle()
  }

  #stopIfIdle(): void {
    if (this.#subscriptions.size > 0 || this.#readers.size > 0 || this.#stopped) return
    clearTimeout(this.#idleTimer)
    this.#idleTimer = setTimeout(() => {
      void this.#follower?.then((follower) => follower.stop())
      this.#follower = undefined
    }, IDLE_MS).unref()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#feed.stop()
    clearTimeout(this.#idleTimer)
    const loops = [...this.#loops.values()].map((loop) => loop.stop())
    await (await this.#follower)?.stop()
    await Promise.all(loops)
  }

  #follow(): Promise<Follower> {
    clearTimeout(this.#idleTimer)
    this.#follower ??= this.#feed
      .follow({
        onPage: (changes, from) => this.#onPage(changes, from),
        onLost: (position) => this.#onLost(position),
        gapMs: () => this.#gapMs(),
      })
      .catch((error: unknown) => {
        this.#follower = undefined
        throw error
      })
    return this.#follower
  }

  /** Every page is a write to each client: the more clients, the more changes should share one. Others can wait longer. */
  #gapMs(): number {
    const { size } = this.#subscriptions
    return size > 0 ? Math.min(25, 3 + size / 40) : Math.min(100, ...[...this.#readers].map(({ gapMs }) => gapMs))
  }

  /** Up to the first wait everything happens at once, so a subscription is either in the audience of a page or after it. */
  async #onPage(changes: readonly Change[], from: Position): Promise<void> {
    for (const reader of this.#readers) reader.onPage(changes)
    const end = this.#feed.here
    const level = [...this.#groups.values()].filter((group) => group.position === from)
    if (level.length === 0) return
    try {
      const interests = level.map((group) => group.interest)
      const view = await this.#feed.view(changes, interests)
      for (const group of level) {
        const unchecked = view.unchecked(group.interest)
        if (unchecked) group.deliver(unchecked, end)
        else this.#loopOf(group.interest).add(group)
      }
    } catch (error) {
      this.#abandon(level, error)
    }
  }

  /** The log goes on elsewhere, as after a restore. */
  #onLost(position: Position): void {
    this.#observe({ message: 'realtime: position lost, subscribers start anew' })
    for (const reader of this.#readers) reader.onLost()
    for (const group of this.#groups.values()) group.position = position
    for (const subscription of this.#subscriptions) {
      subscription.position = position
      subscription.client.reset(position)
    }
  }

  #loopOf({ isFiltered, payer }: Interest, isSlow = this.#isSlow(payer)): CheckLoop {
    const key = isFiltered || isSlow ? payer : TOGETHER
    const make = (): CheckLoop =>
      new CheckLoop(this.#feed, this.#clock, {
        tooSlow: key === TOGETHER ? (group) => this.#loopOf(group.interest, true).add(group) : undefined,
        deliver: (group, verdict, end) => this.#deliver(group, verdict, end),
        abandon: (groups, error) => this.#abandon(groups, error),
        onIdle: () => this.#loops.delete(key),
      })
    return getOrCreate(this.#loops, key, make)
  }

  /** Everything up to the first wait happens at once: a subscription that is level joins before the next page. */
  #bring(subscription: Subscription): void {
    const { client } = subscription
    catchUp(subscription, this.#feed, {
      join: () => this.#join(subscription),
      fail: (error) => this.#fail([subscription], subscription.interest, error),
    }).catch((error: unknown) => {
      this.#observe({ message: 'realtime: replay failed', attrs: { error: reasonOf(error) } })
      client.fail(new AppError('internal', 'internal error'))
    })
  }

  #join(subscription: Subscription): void {
    const { interest } = subscription
    const { here } = this.#feed
    const group = getOrCreate(this.#groups, interest.key, () => new SubscriberGroup(interest, here))
    subscription.join(group, here)
  }

  #leave(subscription: Subscription): void {
    const { group } = subscription
    subscription.leave()
    if (group?.members.size === 0) this.#forget(group)
  }

  /** Subscriptions with the same interest make a new group. */
  #forget(group: SubscriberGroup): void {
    if (this.#groups.get(group.interest.key) === group) this.#groups.delete(group.interest.key)
  }

  #deliver(group: SubscriberGroup, verdict: Verdict, end: Position): void {
    if (verdict instanceof AppError) {
      this.#forget(group)
      this.#fail(group.members, group.interest, verdict)
    } else group.deliver(verdict, end)
  }

  #fail(subscriptions: Iterable<Subscription>, { session }: Interest, error: AppError): void {
    const isTooSlow = error.errorCode === 'filter_too_slow'
    const message = isTooSlow ? 'realtime: filter takes too long' : 'realtime: row security check failed'
    const failure = isTooSlow ? error : new AppError('row_security_failed', 'row security check failed')
    this.#observe({ message, attrs: { error: reasonOf(error.cause ?? error), session: session.userId } })
    for (const { client } of subscriptions) client.fail(failure)
  }

  /** Something unforeseen: the clients come back and resume, so it costs them time but no event. */
  #abandon(groups: readonly SubscriberGroup[], error: unknown): void {
    const attrs = { error: reasonOf(error) }
    if (!this.#stopped) this.#observe({ message: 'realtime: batch failed', attrs })
    for (const group of groups) {
      this.#forget(group)
      for (const { client } of group.members) client.drop()
    }
  }
}
