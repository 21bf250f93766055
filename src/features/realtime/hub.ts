import { AppError, reasonOf } from '../../core/errors.ts'
import { Semaphore } from '../../core/limits.ts'
import type { Observe } from '../../core/observe.ts'
import type { Change, ChangeLog, Follower, Position } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import type { Schema } from '../../db/schema/snapshot.ts'
import { catchingUp } from './catch-up.ts'
import type { Channel } from './channel.ts'
import { type Batch, Checks } from './checks.ts'
import { FilterBudget, tooDear } from './filter-budget.ts'
import { createRecent } from './recent.ts'
import type { Subscriber } from './subscriber.ts'
import { joined } from './told-change.ts'
import type { Interest } from './visibility/interest.ts'
import { type Judged, judge, type Verdict } from './visibility/judge.ts'
import { isTransient } from './visibility/visible.ts'
import type { Wanted } from './visibility/wanted.ts'

export type HubDeps = {
  db: Db
  log: Pick<ChangeLog, 'follow' | 'head' | 'read' | 'isKnown'>
  /** A snapshot that knows this table, if there is such a table. */
  schemaWith: (tables: readonly string[]) => Promise<Schema>
  observe: Observe
}

/** Bytes that may wait for their checks before the reader is held up. */
const MAX_WAITING = 32 * 1024 * 1024
/** The same for the filters of one identity, which hold up nobody: its subscribers read on at their own pace. */
const MAX_WAITING_FOR_FILTER = 8 * 1024 * 1024
/** Filters that are judged at once. */
const FILTER_SLOTS = 2
const IDLE_MS = 30_000
const RETRY_MS = 250

type Part = { seq: number; changes: readonly Change[]; verdict: Verdict }

/** Reads the log once for all subscribers of this process, as long as there are any, and tells each what it may hear. */
export class Hub {
  readonly #deps: HubDeps
  readonly #channels = new Map<string, Channel>()
  readonly #all = new Set<Subscriber>()
  readonly #recent = createRecent()
  /** Row security, for everybody without a filter: the operator wrote the policies. */
  readonly #checks = new Checks((round) => this.#check(round))
  /** Callers wrote the filters, so each identity waits for its own alone. */
  readonly #filterChecks = new Map<string, Checks>()
  readonly #filterTurns = new Semaphore(FILTER_SLOTS)
  readonly #budget = new FilterBudget()
  readonly #catchUp = catchingUp({
    here: () => this.#here,
    join: (subscriber) => this.#join(subscriber),
    after: (position) => this.#after(position),
    isKnown: (position) => this.#again(() => this.#deps.log.isKnown(position)),
    judge: (interest, changes) => this.#replayed(interest, changes),
    fail: (subscriber, interest, error) => this.#failAll({ interest, members: new Set([subscriber]) }, error),
  })
  #follower: Promise<Follower> | undefined
  #here: Position = '0-0'
  #seq = 0
  #idleTimer: NodeJS.Timeout | undefined
  #dispatching = false
  #stopped = false

  constructor(deps: HubDeps) {
    this.#deps = deps
  }

  /** Where a new subscriber begins. */
  async position(): Promise<Position> {
    await this.#running()
    return this.#here
  }

  /** Whether this is a place that the log knows. */
  async isKnown(position: Position): Promise<boolean> {
    await this.#running()
    return this.#recent.has(position) || this.#deps.log.isKnown(position)
  }

  /** Throws while the filters of this identity have taken too much of the database's time. */
  requireBudget({ isFiltered, sessionKey }: Interest): void {
    if (isFiltered && this.#budget.isSpent(sessionKey)) throw tooDear()
  }

  /** From `from` on, replayed first if that is in the past. */
  add(subscriber: Subscriber, from: Position): void {
    this.#all.add(subscriber)
    subscriber.at = from
    if (from === this.#here) this.#join(subscriber)
    else this.#bring(subscriber)
  }

  /**
   * From the place that is returned, it hears of something else; of what it goes on hearing of, nothing is lost or told
   * twice. `missed` was asked for from an earlier place, and is told before that.
   */
  change(subscriber: Subscriber, interest: Interest, missed?: { wanted: Wanted; from: Position }): Position {
    const isSame = interest.key === subscriber.interest.key && !missed
    subscriber.interest = interest
    if (missed) subscriber.missed.push(missed)
    if (!isSame && this.#leave(subscriber)) this.#bring(subscriber)
    return subscriber.at
  }

  remove(subscriber: Subscriber): void {
    this.#all.delete(subscriber)
    this.#leave(subscriber)
    if (this.#all.size > 0 || this.#stopped) return
    clearTimeout(this.#idleTimer)
    this.#idleTimer = setTimeout(() => {
      const idle = this.#follower
      this.#follower = undefined
      void idle?.then((one) => one.stop())
    }, IDLE_MS).unref()
  }

  /** The place up to which this one has been told everything; undefined while that is under way. */
  settledFor(subscriber: Subscriber): Position | undefined {
    const isBusy = this.#dispatching || this.#checks.running || this.#filterChecks.size > 0
    return isBusy || subscriber.joinedAt > this.#seq ? undefined : this.#here
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#idleTimer)
    const checks = [this.#checks, ...this.#filterChecks.values()]
    for (const one of checks) one.stop()
    await (await this.#follower)?.stop()
    await Promise.allSettled(checks.map((one) => one.running))
  }

  #running(): Promise<Follower> {
    clearTimeout(this.#idleTimer)
    const { log } = this.#deps
    // Every batch is a write to each stream: the more streams, the more changes should share one.
    const gapMs = (): number => Math.min(25, 3 + this.#all.size / 40)
    this.#follower ??= log.head().then(
      (head) => {
        this.#here = head
        this.#recent.restart(head)
        return log.follow({
          from: head,
          onBatch: (changes) => this.#dispatch(changes),
          onLost: (position) => this.#lost(position),
          gapMs,
        })
      },
      (error: unknown) => {
        this.#follower = undefined
        throw error
      },
    )
    return this.#follower
  }

  /** Everything up to the first wait happens at one moment, so a stream is either in this batch or after it. */
  async #dispatch(changes: readonly Change[]): Promise<void> {
    const last = changes.at(-1)
    if (!last) return
    const before = this.#here
    this.#here = last.position
    this.#seq++
    this.#recent.add(changes)
    const audience = [...this.#channels.values()]
    this.#dispatching = true
    try {
      await this.#tellOrCheck({ seq: this.#seq, changes }, before, audience)
    } catch (error) {
      this.#letGo(audience, error)
    } finally {
      this.#dispatching = false
    }
    if (this.#checks.waiting > MAX_WAITING) await this.#checks.running
  }

  async #tellOrCheck(batch: Omit<Batch, 'channels'>, before: Position, audience: readonly Channel[]): Promise<void> {
    const interests = audience.map(({ interest }) => interest)
    const judged = await this.#again(() => this.#judge(batch.changes, interests))
    const toCheck = new Set<Channel>()
    for (const channel of audience) {
      const { interest } = channel
      // Behind an unfinished check nothing may overtake.
      const isFree = channel.pending === 0
      if (!judged.concerns(interest)) {
        if (isFree) settle(channel, batch)
      } else if (isFree && judged.isFree(interest)) this.#tell(channel, [{ ...batch, verdict: judged.free(interest) }])
      else if (interest.isFiltered) this.#checkFilter(batch, before, channel)
      else toCheck.add(channel)
    }
    if (toCheck.size > 0) this.#checks.push({ ...batch, channels: toCheck })
  }

  #checkFilter(batch: Omit<Batch, 'channels'>, before: Position, channel: Channel): void {
    const checks = this.#filterChecksOf(channel.interest.sessionKey)
    if (checks.waiting <= MAX_WAITING_FOR_FILTER) checks.push({ ...batch, channels: new Set([channel]) })
    else this.#leaveBehind(channel, before, checks)
  }

  /** Its members are told what waits for them already, and then read the log from there by themselves. */
  #leaveBehind(channel: Channel, from: Position, checks: Checks): void {
    this.#channels.delete(channel.interest.key)
    void Promise.resolve(checks.running).then(() => {
      for (const subscriber of [...channel.members]) {
        this.#leave(subscriber)
        subscriber.at = from
        if (this.#all.has(subscriber)) this.#bring(subscriber)
      }
    })
  }

  #filterChecksOf(sessionKey: string): Checks {
    const known = this.#filterChecks.get(sessionKey)
    if (known) return known
    const forget = (): void => void this.#filterChecks.delete(sessionKey)
    const checks = new Checks((round) => this.#check(round), forget)
    this.#filterChecks.set(sessionKey, checks)
    return checks
  }

  async #check(round: readonly Batch[]): Promise<void> {
    const changes = [...new Set(round.map((batch) => batch.changes))].flat()
    const asked = [...new Set(round.flatMap((batch) => [...batch.channels]))].filter(({ members }) => members.size > 0)
    if (asked.length === 0) return
    try {
      const interests = asked.map(({ interest }) => interest)
      const verdicts = await this.#again(async () => (await this.#judge(changes, interests)).checked(interests))
      for (const channel of asked) this.#tell(channel, split(round, channel, verdicts.get(channel.interest) ?? []))
    } catch (error) {
      this.#letGo(asked, error)
    }
  }

  async #judge(changes: readonly Change[], interests: readonly Interest[]): Promise<Judged> {
    const { db, observe, schemaWith } = this.#deps
    const deps = { db, observe, budget: this.#budget, turns: this.#filterTurns }
    return judge(deps, await schemaWith(namesIn(changes)), changes, interests)
  }

  #tell(channel: Channel, parts: readonly Part[]): void {
    for (const part of parts) {
      const { seq, verdict } = part
      if (verdict instanceof AppError) return void this.#failAll(channel, verdict)
      settle(channel, part)
      if (verdict.length === 0) continue
      for (const one of channel.members) if (one.joinedAt < seq) one.send(joined(verdict, one.format))
    }
  }

  /** Something nobody foresaw: the clients come back and resume, so it costs them time but no event. */
  #letGo(audience: readonly Channel[], error: unknown): void {
    const { observe } = this.#deps
    if (!this.#stopped)
      observe({ level: 'error', message: 'realtime: batch failed', attrs: { error: reasonOf(error) } })
    for (const { members } of audience) for (const one of members) one.drop()
  }

  #failAll({ members, interest }: Pick<Channel, 'members' | 'interest'>, error: AppError): void {
    const isTooDear = error.kind === 'rate_limited'
    const message = isTooDear ? error.message : 'row security check failed'
    this.#deps.observe({
      level: 'warn',
      message: `realtime: ${message}`,
      attrs: { error: causeOf(error), session: interest.session.userId },
    })
    for (const one of members) one.fail(isTooDear ? 429 : 403, message)
  }

  /** The database is away: the changes are still in the log, so they are judged when it is back. */
  async #again<T>(attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (this.#stopped || !isTransient(error)) throw error
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref())
      }
    }
  }

  #lost(position: Position): void {
    this.#here = position
    this.#seq++
    this.#recent.restart(position)
    this.#deps.observe({ level: 'warn', message: 'realtime: position lost, subscribers start anew' })
    for (const channel of this.#channels.values()) channel.told = { seq: this.#seq, at: position }
    for (const one of this.#all) one.reset(position)
  }

  #join(subscriber: Subscriber): void {
    const { interest } = subscriber
    const told = { seq: this.#seq, at: this.#here }
    const channel = this.#channels.get(interest.key) ?? { interest, members: new Set(), pending: 0, told }
    this.#channels.set(interest.key, channel)
    subscriber.channel = channel
    subscriber.joinedAt = this.#seq
    subscriber.at = this.#here
    channel.members.add(subscriber)
  }

  /** False when it was in no channel. */
  #leave(subscriber: Subscriber): boolean {
    const { channel } = subscriber
    if (!channel) return false
    const { key } = channel.interest
    channel.members.delete(subscriber)
    if (channel.members.size === 0 && this.#channels.get(key) === channel) this.#channels.delete(key)
    if (channel.told.seq > subscriber.joinedAt) subscriber.at = channel.told.at
    subscriber.joinedAt = Number.POSITIVE_INFINITY
    subscriber.channel = undefined
    return true
  }

  #bring(subscriber: Subscriber): void {
    this.#catchUp(subscriber).catch((error: unknown) => {
      this.#deps.observe({ level: 'error', message: 'realtime: replay failed', attrs: { error: reasonOf(error) } })
      subscriber.fail(500, 'internal error')
    })
  }

  async #after(position: Position): Promise<readonly Change[]> {
    return this.#recent.after(position) ?? (await this.#again(() => this.#deps.log.read(position)))
  }

  async #replayed(interest: Interest, changes: readonly Change[]): Promise<Verdict> {
    return this.#again(async () => {
      const judged = await this.#judge(changes, [interest])
      if (judged.isFree(interest)) return judged.free(interest)
      return (await judged.checked([interest])).get(interest) ?? []
    })
  }
}

const namesIn = (changes: readonly Change[]): string[] => [
  ...new Set(changes.map(({ schema, name }) => `${schema}.${name}`)),
]
const causeOf = (error: AppError): string => (error.cause ? reasonOf(error.cause) : error.message)

function settle(channel: Channel, { seq, changes }: { seq: number; changes: readonly Change[] }): void {
  const at = changes.at(-1)?.position
  if (at !== undefined && seq > channel.told.seq) channel.told = { seq, at }
}

/** The verdict on several batches, batch by batch again, numbered within each; those that are not for the channel are left out. */
function split(round: readonly Batch[], channel: Channel, verdict: Verdict): Part[] {
  const starts = new Map<readonly Change[], number>()
  let offset = 0
  for (const { changes } of round) {
    if (starts.has(changes)) continue
    starts.set(changes, offset)
    offset += changes.length
  }
  return round.flatMap(({ seq, changes, channels }): Part[] => {
    if (!channels.has(channel)) return []
    if (verdict instanceof AppError) return [{ seq, changes, verdict }]
    const start = starts.get(changes) ?? 0
    const own = verdict.filter(({ n }) => n >= start && n < start + changes.length)
    return [{ seq, changes, verdict: own.map((frame) => ({ ...frame, n: frame.n - start })) }]
  })
}
