import { sleep } from '../../../core/clock.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import type { Change } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import type { CallerQueue } from '../visibility/caller-queue.ts'
import { isTransient } from '../visibility/table-changes.ts'
import type { LiveGroup } from './group.ts'
import { concerned, readKeysBefore } from './judge.ts'
import { TableWatch } from './table-watch.ts'

type Deps = {
  connect: () => Promise<Db>
  lanes: Pick<CallerQueue, 'isSlow' | 'spend'>
  /** The list has to be read again. */
  concern: (group: LiveGroup) => void
  onFailure: (error: unknown) => void
}

/** Between two rounds of questions: reading the lists that are concerned needs PostgreSQL more than asking again does. */
const PAUSE = { times: 3, maxMs: 250 }

/** All tables that live lists depend on, and who is concerned by what changes there. */
export class Watches {
  readonly #deps: Deps
  readonly #tables = new Map<number, TableWatch>()
  /** Tables with questions to PostgreSQL. */
  readonly #inquiring = new Set<number>()
  #judging: Promise<void> | undefined
  #isStopped = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  add(group: LiveGroup): void {
    for (const [oid, reaction] of group.dependencies?.reactions ?? []) {
      getOrCreate(this.#tables, oid, () => new TableWatch()).add(group, reaction)
    }
  }

  remove(group: LiveGroup): void {
    for (const oid of group.dependencies?.reactions.keys() ?? []) {
      const watch = this.#tables.get(oid)
      watch?.remove(group)
      if (watch?.isEmpty) this.#tables.delete(oid)
    }
  }

  /** That of its own table, if changes there are judged. */
  ofOwn({ plan, dependencies }: LiveGroup): TableWatch | undefined {
    const oid = plan?.own?.table.oid
    return oid !== undefined && dependencies?.reactions.get(oid) === 'judge' ? this.#tables.get(oid) : undefined
  }

  onPage(changes: readonly Change[]): void {
    for (const change of changes) {
      const watch = this.#tables.get(change.oid)
      if (!watch) continue
      watch.onChange(change, this.#deps.concern)
      this.#inquiring.add(change.oid)
    }
    if (this.#inquiring.size > 0) this.#judging ??= this.#judge()
  }

  /** Something has changed in this table. */
  onTable(oid: number): void {
    this.#tables.get(oid)?.onAnything(this.#deps.concern)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#judging
  }

  /** What came of each table since the last round, for all its lists. The more a round costs, the longer until the next. */
  async #judge(): Promise<void> {
    while (this.#inquiring.size > 0 && !this.#isStopped) {
      const beganAt = performance.now()
      for (const oid of [...this.#inquiring]) {
        this.#inquiring.delete(oid)
        const watch = this.#tables.get(oid)
        if (watch) await this.#judgeTable(watch)
      }
      await sleep(Math.min(PAUSE.maxMs, (performance.now() - beganAt) * PAUSE.times))
    }
    this.#judging = undefined
  }

  async #judgeTable(watch: TableWatch): Promise<void> {
    const { connect, lanes, concern, onFailure } = this.#deps
    const inquiry = watch.takeInquiry()
    if (!inquiry) return
    try {
      const db = await connect()
      const { table } = watch
      const updated = table && inquiry.updates.length > 0 ? await readKeysBefore(db, table, inquiry.updates) : []
      for (const key of updated) watch.onKey(key, concern)
      const groups = new Set([...inquiry.groups].filter(({ isDirty, plan }) => !isDirty && plan))
      for (const group of await concerned({ db, budget: lanes }, { ...inquiry, groups })) concern(group)
    } catch (error) {
      // Whatever it was, reading again is right.
      watch.onAnything(concern)
      if (!isTransient(error) && !this.#isStopped) onFailure(error)
    }
  }
}
