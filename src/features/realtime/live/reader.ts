import { budgets } from '../../../core/budgets.ts'
import { AppError } from '../../../core/errors.ts'
import type { Position } from '../../../db/changes/position.ts'
import type { Db } from '../../../db/db.ts'
import { isOutdated } from '../../../db/pg-errors.ts'
import type { LivePlan, LiveRow } from '../../../db/rows/live-query.ts'
import type { SchemaCache } from '../../../db/schema/snapshot.ts'
import type { CallerQueue } from '../visibility/caller-queue.ts'
import { isTransient } from '../visibility/table-changes.ts'
import { LiveBudget } from './budget.ts'
import { DependencyFinder } from './dependencies.ts'
import type { Joining, LiveGroup } from './group.ts'
import { bytesOf, bytesOfValues, diffOf, type HeldRow, hasTwins, heldOf } from './held.ts'
import { LiveMessage } from './message.ts'
import { PolicyValues } from './places.ts'
import { UnheardChanges } from './unheard-changes.ts'
import type { Watches } from './watches.ts'

type Deps = {
  connect: () => Promise<Db>
  lanes: CallerQueue
  schema: SchemaCache
  watches: Pick<Watches, 'add' | 'remove' | 'ofOwn'>
  intervalMs: number
  /** Everything up to here is committed. */
  here: () => Position
  /** Counts what is held; throws when that is too much. */
  hold: (group: LiveGroup, bytes: number) => void
  /** It has no members any more. */
  onIdle: (group: LiveGroup) => void
  onFailure: (error: unknown) => void
}

/** What changes by itself, or by what is not known, is read again within five seconds. */
const TIMED_MS = 4_500
const RETRY_MS = 250
const MAX_INTERVAL_MS = 30_000
/** What counts for a read that hit its time limit. */
const SLOW_MS = 5_000
const MAX_TRIES = 4

/** Reads lists again when something concerns them, compares, and tells their members. */
export class LiveReader {
  readonly #deps: Deps
  readonly #budget = new LiveBudget()
  readonly #policies = new PolicyValues()
  readonly #unheard: UnheardChanges
  #dependencies: DependencyFinder | undefined
  #isStopped = false

  constructor(deps: Deps) {
    this.#deps = deps
    const { connect, lanes, onFailure } = deps
    this.#unheard = new UnheardChanges({
      read: async (group) =>
        lanes.ask(group.payer, async () => {
          const beganAt = performance.now()
          const values = await this.#policies.read(await connect(), group)
          return { values, ms: performance.now() - beganAt }
        }),
      onChange: (group) => this.doubt(group),
      onFailure,
    })
  }

  stop(): void {
    this.#isStopped = true
    this.#unheard.stop()
  }

  /** The next read tells what is so after this call. */
  concern(group: LiveGroup): void {
    group.isDirty = true
    this.#schedule(group, group.lastReadAt + group.interval - performance.now())
  }

  /** As `concern`; what decides which rows its caller may see may have changed too. */
  doubt(group: LiveGroup): void {
    group.hasOldValues = true
    this.concern(group)
  }

  join(group: LiveGroup, joining: Joining): void {
    group.joining.push(joining)
    clearTimeout(group.timer)
    group.timer = undefined
    this.#schedule(group, 0)
  }

  planAnew(group: LiveGroup): void {
    this.#deps.watches.remove(group)
    this.#unheard.remove(group)
    group.plan = undefined
    group.dependencies = undefined
    group.values = undefined
    group.hasOldValues = true
  }

  /** Whatever its members hold, they are sent all rows with the next read. */
  forgetRows(group: LiveGroup): void {
    this.#setRows(group, undefined)
    group.positions.clear()
  }

  rest(group: LiveGroup): void {
    clearTimeout(group.timer)
    clearTimeout(group.clock)
    group.timer = undefined
    this.#unheard.remove(group)
    this.#deps.watches.remove(group)
  }

  #schedule(group: LiveGroup, wait: number): void {
    if (group.isReading || group.isIdle || group.timer !== undefined || this.#isStopped) return
    group.timer = setTimeout(
      () => {
        group.timer = undefined
        void this.#read(group)
      },
      Math.max(0, wait),
    )
  }

  async #read(group: LiveGroup): Promise<void> {
    group.isReading = true
    clearTimeout(group.clock)
    const joining = group.joining.splice(0)
    try {
      await this.#deps.lanes.ask(group.payer, (timeoutMs) => this.#readOnce(group, joining, timeoutMs))
    } catch (error) {
      this.#onFailure(group, joining, error)
    }
    group.isReading = false
    this.#deps.watches.ofOwn(group)?.reading.delete(group)
    group.lastReadAt = performance.now()
    if (group.isIdle) this.#deps.onIdle(group)
    else if (group.joining.length > 0) this.#schedule(group, group.failures > 0 ? RETRY_MS : 0)
    else if (group.isDirty) this.#schedule(group, group.interval)
    else if (group.dependencies?.isTimed) {
      group.clock = setTimeout(() => this.doubt(group), Math.max(TIMED_MS, group.interval)).unref()
    }
  }

  async #plan(group: LiveGroup): Promise<void> {
    const { schema, watches, connect } = this.#deps
    this.#dependencies ??= new DependencyFinder(await connect())
    if (group.failures > 0) await schema.refreshIfStale()
    for (let snapshot = schema.read(); ; snapshot = schema.read()) {
      const plan = await group.query.plan(group.who)
      const dependencies = await this.#dependencies.of(plan, group.session.role, snapshot)
      if (schema.read() !== snapshot) continue
      group.plan = plan
      group.dependencies = dependencies
      return watches.add(group)
    }
  }

  async #readOnce(group: LiveGroup, joining: readonly Joining[], timeoutMs: number): Promise<{ ms: number }> {
    const db = await this.#deps.connect()
    // A schema that changes while this waits for its turn voids the plan.
    while (!group.plan) await this.#plan(group)
    const { plan } = group
    const isWhole = !group.rows || joining.some(({ member }) => !group.holdsSince(member.position))
    // From here on, what comes is not sure to be in the answer.
    group.isDirty = false
    const placedMs = await this.#place(db, group)
    group.missed = []
    this.#deps.watches.ofOwn(group)?.reading.add(group)
    const position = this.#deps.here()
    const options = { kind: 'slow', plain: true, as: 'bytes', timeoutMs, maxBytes: budgets.responseBytes } as const
    const answer = await db
      .rows<LiveRow>(group.who, plan.read(isWhole ? [] : group.known), options)
      .catch((error: unknown) => {
        throw plan.explain(error)
      })
    group.failures = 0
    const ms = placedMs + Number(answer.find(({ n }) => n === -1)?.r?.toString() ?? 0)
    const rows = answer.filter(({ n }) => n !== -1).sort((a, b) => a.n - b.n)
    const isApplied = this.#apply(group, plan, rows, joining, position)
    if (!isApplied) {
      group.joining.unshift(...joining)
      group.isDirty = true
    }
    this.#pace(group, ms, joining)
    return { ms }
  }

  /**
   * Looks up which values rows of its caller may have, before its rows are read: a change that was judged by the old ones meanwhile
   * is among what is read then. Answers the milliseconds that it took.
   */
  async #place(db: Db, group: LiveGroup): Promise<number> {
    const { plan } = group
    if (!group.hasOldValues || !this.#deps.watches.ofOwn(group)) return 0
    group.hasOldValues = false
    const beganAt = performance.now()
    try {
      const values = await this.#policies.read(db, group)
      // Planned anew meanwhile.
      if (group.plan !== plan) return 0
      group.values = values
      this.#deps.watches.ofOwn(group)?.place(group)
      if (values && group.dependencies?.isUnheard) this.#unheard.add(group)
    } catch (error) {
      group.hasOldValues = true
      throw error
    }
    return performance.now() - beganAt
  }

  /** Members are sent what has changed, those who join all of it. False when it has to be read again for that. */
  #apply(
    group: LiveGroup,
    plan: LivePlan,
    rows: readonly LiveRow[],
    joining: readonly Joining[],
    position: Position,
  ): boolean {
    // Planned anew meanwhile.
    if (group.plan !== plan) return false
    const { rows: before } = group
    const held = heldOf(rows)
    const isSame = before !== undefined && isEqual(before, held)
    const isKeyed = plan.isKeyed && !hasTwins(held)
    const changes = isKeyed && before && !isSame && !hasTwins(before) ? diffOf(before, rows) : undefined
    const texts = rows.flatMap(({ r }) => (r === null ? [] : [r]))
    const keys = isKeyed ? held.map(({ k }) => k) : undefined
    const all = texts.length === rows.length ? LiveMessage.rows(position, texts, keys) : undefined
    const holders = new Set(joining.filter(({ member }) => before && group.holdsSince(member.position)))
    if (!all && ((!isSame && !changes) || holders.size < joining.length)) {
      this.forgetRows(group)
      return false
    }
    const refusal = this.#setRows(group, held)
    if (refusal) {
      for (const { settle } of joining) settle(refusal)
      return true
    }
    if (!isSame) group.positions.clear()
    group.positions.add(position)
    const news = isSame ? undefined : changes ? LiveMessage.diff(position, changes) : all
    if (news) for (const { listener } of group.members) listener.send(news)
    for (const one of joining) {
      group.members.add(one.member)
      one.settle(holders.has(one) ? news : all)
    }
    const logged = new Set(held.map(({ p }) => p))
    if (group.missed.some((key) => logged.has(key))) group.isDirty = true
    return true
  }

  /** Answers why they cannot be held, and then the list has ended. */
  #setRows(group: LiveGroup, rows: readonly HeldRow[] | undefined): AppError | undefined {
    const watch = this.#deps.watches.ofOwn(group)
    watch?.release(group)
    group.rows = rows
    watch?.hold(group)
    try {
      this.#deps.hold(group, bytesOf(rows ?? [], group.key) + bytesOfValues(group.values))
      return undefined
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      this.#end(group, error)
      return error
    }
  }

  /** How long until it may be read again: what its reads take is a part of its caller's time. */
  #pace(group: LiveGroup, ms: number, joining: readonly Joining[] = []): void {
    const { intervalMs } = this.#deps
    group.interval = Math.min(MAX_INTERVAL_MS, Math.max(intervalMs, this.#budget.pauseAfter(group.payer, ms)))
    const interval = Math.ceil(group.interval / intervalMs) * intervalMs
    const before = group.sentInterval || intervalMs
    const isNews = interval >= 2 * before || 2 * interval <= before
    group.sentInterval = isNews ? interval : before
    const isSlow = group.sentInterval >= 2 * intervalMs
    const notified = isNews ? [...group.members] : isSlow ? joining.map(({ member }) => member) : []
    if (notified.length === 0) return
    // After the rows that they are about to be sent.
    setImmediate(() => {
      for (const { listener } of notified) listener.slow(group.sentInterval)
    })
  }

  #onFailure(group: LiveGroup, joining: readonly Joining[], error: unknown): void {
    const failure = error instanceof AppError ? error : new AppError('internal', 'internal error', { cause: error })
    group.isDirty = true
    group.failures++
    // Rights on a column may have gone before the schema is read again.
    const isOld = isOutdated(error) || failure.errorCode === 'insufficient_privilege'
    if (isOld) this.planAnew(group)
    if (isOld && group.failures < MAX_TRIES) group.joining.unshift(...joining)
    else for (const { settle } of joining) settle(failure)
    if (failure.status === 504) this.#pace(group, SLOW_MS)
    else group.interval = Math.min(MAX_INTERVAL_MS, RETRY_MS * 2 ** Math.min(group.failures, 6))
    if (isTransient(error) || failure.status === 504 || (isOld && group.failures < MAX_TRIES)) return
    if (failure.status >= 500 && !this.#isStopped) this.#deps.onFailure(error)
    this.#end(group, failure)
  }

  /** There is nothing to be kept true any more. */
  #end(group: LiveGroup, failure: AppError): void {
    const members = [...group.members]
    group.members.clear()
    this.#deps.watches.ofOwn(group)?.release(group)
    group.rows = undefined
    for (const { listener } of members) listener.fail(failure)
  }
}

const isEqual = (one: readonly HeldRow[], other: readonly HeldRow[]): boolean =>
  one.length === other.length && one.every(({ d }, i) => d === other[i]?.d)
