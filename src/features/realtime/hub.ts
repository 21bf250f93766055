import { sleep } from '../../core/clock.ts'
import { AppError, reasonOf } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'
import { type Change, type ChangeLog, type Follower, isBefore, type Position } from '../../db/changes/log.ts'
import { catchUp } from './deliver/catch-up.ts'
import { CheckLoop } from './deliver/check-loop.ts'
import type { Client } from './deliver/client.ts'
import { RecentChanges } from './deliver/recent-changes.ts'
import { type MissedPart, SubscriberGroup, Subscription } from './deliver/subscription.ts'
import type { Interest } from './subscribe/interest.ts'
import type { Verdict, View } from './visibility/batch-view.ts'
import { isTransient } from './visibility/table-changes.ts'

export type HubDeps = {
  log: Pick<ChangeLog, 'follow' | 'head' | 'read' | 'isKnown'>
  /** What these interests may see of the changes. */
  view: (changes: readonly Change[], interests: readonly Interest[]) => Promise<View>
  observe: Observe
}

const IDLE_MS = 30_000
const RETRY_MS = 250
/** The check loop of all interests without a filter. The operator wrote the policies, so they are checked together. */
const ROW_SECURITY = ''

/**
 * Reads the log once for all subscriptions of this process, as long as there are any: page of the log → what each group
 * may see of it → its clients. A group is level with the log, or a check loop brings it there; a subscription that comes
 * from the past catches up alone and joins its group when it is level.
 */
export class Hub {
  readonly #deps: HubDeps
  readonly #subscriptions = new Set<Subscription>()
  readonly #groups = new Map<string, SubscriberGroup>()
  readonly #recent = new RecentChanges()
  /** By identity for interests with a filter: callers wrote the filters, so each identity waits for its own alone. */
  readonly #loops = new Map<string, CheckLoop>()
  #follower: Promise<Follower> | undefined
  #here: Position = '0-0'
  #idleTimer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(deps: HubDeps) {
    this.#deps = deps
  }

  /** Where a subscription begins: at the position its client asks for, if the log knows that one, else at the present. */
  async startAt(position: Position | undefined): Promise<{ from: Position; isReset: boolean }> {
    await this.#running()
    if (position === undefined) return { from: this.#here, isReset: false }
    const isKnown = this.#recent.has(position) || (await this.#deps.log.isKnown(position))
    return { from: isKnown ? position : this.#here, isReset: !isKnown }
  }

  subscribe(client: Client, interest: Interest, from: Position): Subscription {
    const subscription = new Subscription(client, interest, from)
    this.#subscriptions.add(subscription)
    this.#bring(subscription)
    return subscription
  }

  /**
   * From the position that is returned, the subscription has another interest; of what stays, nothing is lost or sent
   * twice. `missed` begins at an earlier position, and is delivered first.
   */
  change(subscription: Subscription, interest: Interest, missed?: MissedPart): Position {
    const isSame = interest.key === subscription.interest.key && !missed
    subscription.interest = interest
    if (missed) subscription.missed.push(missed)
    if (!isSame && subscription.group) {
      this.#leave(subscription)
      this.#bring(subscription)
    }
    return subscription.position
  }

  unsubscribe(subscription: Subscription): void {
    this.#subscriptions.delete(subscription)
    this.#leave(subscription)
    if (this.#subscriptions.size > 0 || this.#stopped) return
    clearTimeout(this.#idleTimer)
    this.#idleTimer = setTimeout(() => {
      const idle = this.#follower
      this.#follower = undefined
      void idle?.then((follower) => follower.stop())
    }, IDLE_MS).unref()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#idleTimer)
    const loops = [...this.#loops.values()].map((loop) => loop.stop())
    await (await this.#follower)?.stop()
    await Promise.all(loops)
  }

  #running(): Promise<Follower> {
    clearTimeout(this.#idleTimer)
    this.#follower ??= this.#follow().catch((error: unknown) => {
      this.#follower = undefined
      throw error
    })
    return this.#follower
  }

  async #follow(): Promise<Follower> {
    const { log } = this.#deps
    this.#here = await log.head()
    this.#recent.restart(this.#here)
    return log.follow({
      from: this.#here,
      onBatch: (changes) => this.#onPage(changes),
      onLost: (position) => this.#onLost(position),
      // Every page is a write to each client: the more clients, the more changes should share one.
      gapMs: () => Math.min(25, 3 + this.#subscriptions.size / 40),
    })
  }

  /** Up to the first wait everything happens at once, so a subscription is either in this page's audience or after it. */
  async #onPage(changes: readonly Change[]): Promise<void> {
    const end = changes.at(-1)?.position
    if (end === undefined) return
    const level = [...this.#groups.values()].filter((group) => group.position === this.#here)
    this.#here = end
    this.#recent.add(changes)
    try {
      const interests = level.map((group) => group.interest)
      const view = await this.#retry(() => this.#deps.view(changes, interests))
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
    this.#here = position
    this.#recent.restart(position)
    this.#deps.observe({ message: 'realtime: position lost, subscribers start anew' })
    for (const group of this.#groups.values()) group.position = position
    for (const subscription of this.#subscriptions) {
      subscription.position = position
      subscription.client.reset(position)
    }
  }

  #loopOf({ isFiltered, sessionKey }: Interest): CheckLoop {
    const key = isFiltered ? sessionKey : ROW_SECURITY
    const known = this.#loops.get(key)
    if (known) return known
    const loop = new CheckLoop({
      here: () => this.#here,
      after: (position) => this.#after(position),
      judge: (changes, interests) => this.#judge(changes, interests),
      deliver: (group, verdict, end) => {
        if (!(verdict instanceof AppError)) return group.deliver(verdict, end)
        this.#forget(group)
        this.#fail(group, verdict)
      },
      abandon: (groups, error) => this.#abandon(groups, error),
      onIdle: () => this.#loops.delete(key),
    })
    this.#loops.set(key, loop)
    return loop
  }

  #judge(changes: readonly Change[], interests: readonly Interest[]): Promise<ReadonlyMap<Interest, Verdict>> {
    return this.#retry(async () => (await this.#deps.view(changes, interests)).check(interests))
  }

  /** What came after a position, up to the present. */
  async #after(position: Position): Promise<readonly Change[]> {
    const recent = this.#recent.after(position)
    if (recent) return recent
    const page = await this.#retry(() => this.#deps.log.read(position))
    return page.filter((change) => !isBefore(this.#here, change.position))
  }

  /** Everything up to the first wait happens at once: a subscription that is level joins before the next page. */
  #bring(subscription: Subscription): void {
    catchUp(subscription, {
      here: () => this.#here,
      join: () => this.#join(subscription),
      after: (position) => this.#after(position),
      isKnown: (position) => this.#retry(() => this.#deps.log.isKnown(position)),
      judge: async (changes, interest) => (await this.#judge(changes, [interest])).get(interest),
      fail: (error) => this.#fail({ interest: subscription.interest, members: [subscription] }, error),
    }).catch((error: unknown) => {
      this.#deps.observe({ message: 'realtime: replay failed', attrs: { error: reasonOf(error) } })
      subscription.client.fail(new AppError('internal', 'internal error'))
    })
  }

  #join(subscription: Subscription): void {
    const { interest } = subscription
    const group = this.#groups.get(interest.key) ?? new SubscriberGroup(interest, this.#here)
    this.#groups.set(interest.key, group)
    subscription.join(group, this.#here)
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

  /** Something unforeseen: the clients come back and resume, so it costs them time but no event. */
  #abandon(groups: readonly SubscriberGroup[], error: unknown): void {
    const attrs = { error: reasonOf(error) }
    if (!this.#stopped) this.#deps.observe({ message: 'realtime: batch failed', attrs })
    for (const group of groups) {
      this.#forget(group)
      for (const { client } of group.members) client.drop()
    }
  }

  #fail({ interest, members }: { interest: Interest; members: Iterable<Subscription> }, error: AppError): void {
    const isTooSlow = error.status === 429
    const message = isTooSlow ? 'realtime: filter takes too long' : 'realtime: row security check failed'
    const failure = isTooSlow ? error : new AppError('row_security_failed', 'row security check failed')
    const attrs = { error: reasonOf(error.cause ?? error), session: interest.session.userId }
    this.#deps.observe({ message, attrs })
    for (const { client } of members) client.fail(failure)
  }

  /** While the database is away the changes stay in the log, so they are judged when it is back. */
  async #retry<T>(attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (this.#stopped || !isTransient(error)) throw error
        await sleep(RETRY_MS)
      }
    }
  }
}
