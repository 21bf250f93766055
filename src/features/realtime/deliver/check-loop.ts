import { sleep } from '../../../core/clock.ts'
import { AppError } from '../../../core/errors.ts'
import { type Change, isBefore, type Position } from '../../../db/changes/log.ts'
import type { Interest } from '../subscribe/interest.ts'
import type { Verdict } from '../visibility/batch-view.ts'
import type { SubscriberGroup } from './subscription.ts'

type Deps = {
  /** Where the present is. */
  here: () => Position
  /** Some of what came between a position and the present. */
  after: (position: Position) => Promise<readonly Change[]>
  judge: (changes: readonly Change[], interests: readonly Interest[]) => Promise<ReadonlyMap<Interest, Verdict>>
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
  readonly #deps: Deps
  readonly #groups = new Set<SubscriberGroup>()
  #running: Promise<void> | undefined
  #stopped = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  add(group: SubscriberGroup): void {
    this.#groups.add(group)
    this.#running ??= this.#run()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
  }

  async #run(): Promise<void> {
    while (this.#groups.size > 0 && !this.#stopped) {
      const startedAt = performance.now()
      const groups = [...this.#groups]
      try {
        await this.#round(groups)
      } catch (error) {
        this.#deps.abandon(groups, error)
        for (const group of groups) this.#groups.delete(group)
      }
      // A round costs the same per identity for one change as for ten: expensive rounds are made less often.
      const pause = Math.min(MAX_PAUSE_MS, (performance.now() - startedAt) / 2)
      if (pause > LEAST_PAUSE_MS) await sleep(pause)
    }
    this.#running = undefined
    this.#deps.onIdle()
  }

  async #round(groups: readonly SubscriberGroup[]): Promise<void> {
    const { here, after, judge, deliver } = this.#deps
    const present = here()
    const from = earliest(groups.map((group) => group.position))
    const changes = await after(from)
    const end = changes.at(-1)?.position ?? present
    const round = groups.flatMap((group) =>
      group.members.size > 0 && isBefore(group.position, end) ? { group, start: group.position } : [],
    )
    const verdicts = await judge(
      changes,
      round.map(({ group }) => group.interest),
    )
    for (const { group, start } of round) {
      const verdict = verdicts.get(group.interest)
      // The log may have lost the position meanwhile, which moved the group.
      if (!verdict || group.position !== start) continue
      if (verdict instanceof AppError) this.#groups.delete(group)
      deliver(group, start === from || verdict instanceof AppError ? verdict : verdict.after(start), end)
    }
    // A group that is level again goes on with the pages that come.
    for (const group of groups) {
      if (group.members.size === 0 || group.position === here()) this.#groups.delete(group)
    }
  }
}

const earliest = (positions: readonly Position[]): Position =>
  [...new Set(positions)].reduce((a, b) => (isBefore(b, a) ? b : a))
