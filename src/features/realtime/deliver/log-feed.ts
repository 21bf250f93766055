import { sleep } from '../../../core/clock.ts'
import { ON_BEHALF } from '../../../core/identity.ts'
import { KeyedMutex, Semaphore } from '../../../core/limits.ts'
import type { Change, ChangeLog, Follower } from '../../../db/changes/log.ts'
import type { LogMoment } from '../../../db/changes/moments.ts'
import { isBefore, type Position } from '../../../db/changes/position.ts'
import type { Interest } from '../subscribe/interest.ts'
import type { Verdict, View } from '../visibility/batch-view.ts'
import { isTransient } from '../visibility/table-changes.ts'
import { RecentChanges } from './recent-changes.ts'

export type FeedDeps = {
  log: Pick<ChangeLog, 'follow' | 'head' | 'read' | 'isKnown' | 'moment'>
  /** What these interests may see of the changes. */
  view: (changes: readonly Change[], interests: readonly Interest[]) => Promise<View>
}

type OnFeed = {
  /** The present was at `from` before these changes, and is at their end now. */
  onPage: (changes: readonly Change[], from: Position) => Promise<void>
  onLost: (position: Position) => void
  gapMs: () => number
}

const RETRY_MS = 250
const PAST_READS = 4

/** The log as this process reads it, once for all subscriptions, and what they may see of it. */
export class LogFeed {
  readonly #deps: FeedDeps
  readonly #recent = new RecentChanges()
  /** The past is read for one payer at a time, and for few at once. */
  readonly #payers = new KeyedMutex()
  readonly #reads = new Semaphore(PAST_READS)
  #here: Position = '0-0'
  #life = 0
  #stopped = false

  constructor(deps: FeedDeps) {
    this.#deps = deps
  }

  /** The present: the end of the last page that was read. */
  get here(): Position {
    return this.#here
  }

  /** Another one after the log has lost its position: what was read in an earlier life is not delivered any more. */
  get life(): number {
    return this.#life
  }

  /** Begins at the head of the log. */
  async follow({ onPage, onLost, gapMs }: OnFeed): Promise<Follower> {
    const { log } = this.#deps
    this.#restart(await log.head())
    return log.follow({
      from: this.#here,
      gapMs,
      onBatch: (changes) => {
        const from = this.#here
        this.#here = changes.at(-1)?.position ?? from
        this.#recent.add(changes)
        return onPage(changes, from)
      },
      onLost: (position) => {
        this.#restart(position)
        onLost(position)
      },
    })
  }

  async isKnown(position: Position): Promise<boolean> {
    return this.#recent.has(position) || this.#deps.log.isKnown(position, ON_BEHALF)
  }

  /** What is committed now, where this process has not read all of it; else undefined. */
  async unreadCommits(): Promise<LogMoment | undefined> {
    const moment = await this.#deps.log.moment()
    return moment.isOver(this.#here) ? undefined : moment
  }

  /** Some of what came between a position and the present; nothing when that is all. `payer`: on whose account it is read. */
  async after(position: Position, payer: string): Promise<readonly Change[]> {
    const recent = this.#recent.after(position)
    if (recent) return recent
    const read = (): Promise<readonly Change[]> => this.#deps.log.read(position, ON_BEHALF)
    const page = await this.retry(() => this.#payers.run(payer, () => this.#reads.run(read)))
    return page.filter((change) => !isBefore(this.#here, change.position))
  }

  view(changes: readonly Change[], interests: readonly Interest[]): Promise<View> {
    return this.retry(() => this.#deps.view(changes, interests))
  }

  /** Without a verdict are those who take long, unless `isPatient`. */
  check(
    changes: readonly Change[],
    interests: readonly Interest[],
    isPatient: boolean,
  ): Promise<ReadonlyMap<Interest, Verdict>> {
    return this.retry(async () => (await this.#deps.view(changes, interests)).check(interests, isPatient))
  }

  /** While the database is away the changes stay in the log, so PostgreSQL is asked when it is back. */
  async retry<T>(attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (this.#stopped || !isTransient(error)) throw error
        await sleep(RETRY_MS)
      }
    }
  }

  stop(): void {
    this.#stopped = true
  }

  #restart(from: Position): void {
    this.#here = from
    this.#life++
    this.#recent.restart(from)
  }
}
