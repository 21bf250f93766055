import { type Clock, sleep } from '../../../core/clock.ts'
import { AppError } from '../../../core/errors.ts'
import { isBefore, type Position } from '../../../db/changes/position.ts'
import type { Verdict } from '../visibility/batch-view.ts'
import type { LogFeed } from './log-feed.ts'
import type { SubscriberGroup } from './subscription.ts'

type On = {
  /** The loop of those who are slow; undefined when each member of this one may take its time. */
  tooSlow: ((group: SubscriberGroup) => void) | undefined
  deliver: (group: SubscriberGroup, verdict: Verdict, end: Position) => void
  /** These groups cannot go on. */
  abandon: (groups: readonly SubscriberGroup[], error: unknown) => void
  onIdle: () => void
}

const MAX_PAUSE_MS = 150
const LEAST_PAUSE_MS = 5

/**
 * Groups about whose changes PostgreSQL is asked, brought to the present together, each in the order of the log. Nothing
 * is queued: each round reads what came meanwhile, so the slower the checks, the larger the rounds.
 */
export class CheckLoop {
  readonly #feed: LogFeed
  readonly #clock: Clock
  readonly #on: On
  readonly #groups = new Set<SubscriberGroup>()
  #running: Promise<void> | undefined
  #stopped = false

  constructor(feed: LogFeed, clock: Clock, on: On) {
    this.#feed = feed
    this.#clock = clock
    this.#on = on
  }

  add(group: SubscriberGroup): void {
    this.#groups.add(group)
    // A moment later, so that all groups of a page are in the first round.
    this.#running ??= Promise.resolve().then(() => this.#run())
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
  }

  async #run(): Promise<void> {
    while (this.#groups.size > 0 && !this.#stopped) {
      const startedAt = this.#clock.now()
      const groups = [...this.#groups]
      try {
        await this.#round(groups)
      } catch (error) {
        this.#on.abandon(groups, error)
        for (const group of groups) this.#groups.delete(group)
      }
      // A round costs the same per identity for one change as for ten: expensive rounds are made less often.
      const pause = Math.min(MAX_PAUSE_MS, (this.#clock.now() - startedAt) / 2)
      if (pause > LEAST_PAUSE_MS) await sleep(pause)
    }
    this.#running = undefined
    this.#on.onIdle()
  }

  async #round(groups: readonly SubscriberGroup[]): Promise<void> {
    const feed = this.#feed
    const { here, life } = feed
    const from = earliest(groups.map((group) => group.position))
    const isOfOnePayer = this.#on.tooSlow === undefined
    const changes = await feed.after(from, (isOfOnePayer && groups[0]?.interest.payer) || '')
    const end = changes.at(-1)?.position ?? here
    const round = groups.filter(({ members, position }) => members.size > 0 && isBefore(position, end))
    const interests = round.map((group) => group.interest)
    const verdicts = await feed.check(changes, interests, isOfOnePayer)
    for (const group of feed.life === life ? round : []) {
      const verdict = verdicts.get(group.interest)
      const isFailed = verdict instanceof AppError
      if (isFailed || !verdict) this.#groups.delete(group)
      if (!verdict) this.#on.tooSlow?.(group)
      else this.#on.deliver(group, isFailed || group.position === from ? verdict : verdict.after(group.position), end)
    }
    // A group that is level again goes on with the pages that come.
    for (const group of groups) {
      if (group.members.size === 0 || group.position === feed.here) this.#groups.delete(group)
    }
  }
}

const earliest = (positions: readonly Position[]): Position =>
  [...new Set(positions)].reduce((a, b) => (isBefore(b, a) ? b : a))
