import { AppError, reasonOf, unavailable } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import { callerKey, type Identity } from '../../../core/identity.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Position } from '../../../db/changes/position.ts'
import type { Db, Notifications } from '../../../db/db.ts'
import type { LiveQuery } from '../../../db/rows/live-query.ts'
import type { SchemaCache } from '../../../db/schema/snapshot.ts'
import type { HeldBytes } from '../channels/rates.ts'
import type { PageSource } from '../deliver/pages.ts'
import type { CallerQueue } from '../visibility/caller-queue.ts'
import { LiveGroup, type LiveMember } from './group.ts'
import type { LiveListener, LiveMessage } from './message.ts'
import { LiveReader } from './reader.ts'
import { Resting } from './resting.ts'
import { Watches } from './watches.ts'

type Deps = {
  /** Connections for live lists alone, opened with the first of them. */
  connect: () => Promise<Db>
  notifications: Notifications
  hub: PageSource
  schema: SchemaCache
  /** Whether the database tells of changes of its schema; else it is looked at. */
  hasSchemaTrigger: boolean
  /** Whether no other process reads the log. */
  isAlone: () => boolean
  lanes: CallerQueue
  held: HeldBytes
  intervalMs: number
  observe: Observe
}

export type LiveHandle = {
  /** What comes first: the rows, or what has changed since the position that was named, if anything. */
  readonly first: LiveMessage | undefined
  /** The same list as another caller; it is sent anew where that may differ. */
  become(who: Identity): Promise<void>
  close(): void
}

/** Without an event trigger, how often the schema is looked at. */
const LOOK_MS = 700
/** What is not in the change log is notified; see migrations/0106_live_queries.sql. */
const CHANNEL = 'svc_live'

/**
 * Lists that are kept true. Reading a list again and comparing is the truth; the log only says when: a change of the list's
 * own table is first held against it (TableWatch, then PostgreSQL), one of another table that decides it reads it again.
 */
export class LiveQueries {
  readonly #deps: Deps
  readonly #groups = new Map<string, LiveGroup>()
  readonly #resting: Resting
  readonly #watches: Watches
  readonly #reader: LiveReader
  #started: Promise<void> | undefined
  #detach: (() => void) | undefined
  #unlisten: (() => Promise<void>) | undefined
  #looking: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(deps: Deps) {
    this.#deps = deps
    const { connect, lanes, schema, intervalMs, hub } = deps
    const onFailure = (error: unknown): void =>
      deps.observe({ message: 'realtime: live query failed', attrs: { error: reasonOf(error) } })
    this.#resting = new Resting((group) => this.#hold(group, 0))
    this.#watches = new Watches({ connect, lanes, onFailure, concern: (group) => this.#reader.concern(group) })
    this.#reader = new LiveReader({
      ...{ connect, lanes, schema, intervalMs, onFailure, watches: this.#watches },
      here: () => hub.here,
      hold: (group, bytes) => this.#hold(group, bytes),
      onIdle: (group) => this.#rest(group),
    })
    schema.onChange(() => this.#onSchema())
  }

  /** Lists that are kept true now. */
  get size(): number {
    let size = 0
    for (const group of this.#groups.values()) size += group.members.size
    return size
  }

  /** `position`: what the client was sent last. */
  async open(who: Identity, query: LiveQuery, listener: LiveListener, position?: Position): Promise<LiveHandle> {
    let { member, first } = await this.#join(who, query, listener, position)
    let isClosed = false
    return {
      first,
      close: () => {
        isClosed = true
        this.#leave(member)
      },
      become: async (other) => {
        if (isClosed || callerKey(other) === member.group.callerKey) return
        this.#leave(member)
        ;({ member, first } = await this.#join(other, query, listener, undefined))
        if (isClosed) this.#leave(member)
        else if (first) listener.send(first)
      },
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#reader.stop()
    for (const group of this.#groups.values()) this.#reader.rest(group)
    clearInterval(this.#looking)
    this.#resting.stop()
    await this.#started?.catch(() => undefined)
    await this.#unlisten?.()
    await this.#watches.stop()
  }

  async #join(who: Identity, query: LiveQuery, listener: LiveListener, position: Position | undefined) {
    const key = LiveGroup.keyOf(who, query)
    // The last list of all may have ended meanwhile.
    do await this.#start()
    while (!this.#detach)
    const group = getOrCreate(this.#groups, key, () => this.#resting.take(key) ?? new LiveGroup(key, who, query))
    const member: LiveMember = { listener, group, position }
    const first = await new Promise<LiveMessage | undefined>((resolve, reject) => {
      const settle = (answer: LiveMessage | AppError | undefined): void =>
        answer instanceof AppError ? reject(answer) : resolve(answer)
      this.#reader.join(group, { member, settle })
    })
    return { member, first }
  }

  #leave(member: LiveMember): void {
    const { group } = member
    if (group.members.delete(member) && group.isIdle && !group.isReading) this.#rest(group)
  }

  /** It has no members. Who comes back soon with its last position is sent what has changed since. */
  #rest(group: LiveGroup): void {
    this.#reader.rest(group)
    if (this.#groups.get(group.key) === group) this.#groups.delete(group.key)
    if (group.rows && this.#deps.isAlone() && !this.#isStopped) this.#resting.keep(group)
    else this.#hold(group, 0)
    if (this.#groups.size > 0) return
    clearInterval(this.#looking)
    this.#looking = undefined
    this.#detach?.()
    this.#detach = undefined
    this.#started = undefined
  }

  /** Follows the log as long as there are lists. */
  #start(): Promise<void> {
    if (this.#isStopped) return Promise.reject(unavailable('server is shutting down', 1, 'shutting_down'))
    this.#started ??= this.#begin().catch((error: unknown) => {
      this.#started = undefined
      throw error
    })
    return this.#started
  }

  async #begin(): Promise<void> {
    const { hub, connect, notifications, schema, hasSchemaTrigger, intervalMs } = this.#deps
    await connect()
    this.#unlisten ??= await notifications.listen(
      CHANNEL,
      (oid) => this.#watches.onTable(Number(oid)),
      () => this.#onAnything(),
    )
    const look = (): void => void schema.refreshIfStale().catch(() => undefined)
    if (!hasSchemaTrigger) this.#looking ??= setInterval(look, LOOK_MS).unref()
    this.#detach = await hub.attach({
      gapMs: intervalMs / 2,
      onPage: (changes) => this.#watches.onPage(changes),
      onLost: () => {
        this.#resting.clear()
        for (const group of this.#groups.values()) this.#reader.forgetRows(group)
        this.#onAnything()
      },
    })
  }

  #onSchema(): void {
    this.#resting.clear()
    for (const group of this.#groups.values()) this.#reader.planAnew(group)
    this.#onAnything()
  }

  #onAnything(): void {
    for (const group of this.#groups.values()) this.#reader.doubt(group)
  }

  /** What rests gives way to what is used. */
  #hold(group: LiveGroup, bytes: number): void {
    const { held } = this.#deps
    const more = bytes - group.bytes
    try {
      held.hold(group.payer, more)
    } catch {
      this.#resting.clear(group.payer)
      held.hold(group.payer, more)
    }
    group.bytes = bytes
  }
}
