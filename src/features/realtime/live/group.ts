import type { AppError } from '../../../core/errors.ts'
import { callerKey, type DatabaseSession, databaseSession, type Identity, ownerOf } from '../../../core/identity.ts'
import type { Position } from '../../../db/changes/position.ts'
import type { LivePlan, LiveQuery } from '../../../db/rows/live-query.ts'
import type { Dependencies } from './dependencies.ts'
import { digestOfAll, type HeldRow } from './held.ts'
import type { LiveListener, LiveMessage } from './message.ts'

/** One who hears what becomes of a live list. */
export type LiveMember = {
  readonly listener: LiveListener
  readonly group: LiveGroup
  /** Where its client was before, if it says so. */
  readonly position: Position | undefined
}

/** Who waits for the first answer. */
export type Joining = { readonly member: LiveMember; settle(answer: LiveMessage | AppError | undefined): void }

/** Changes that came while the list was read, by their keys; beyond some it is read again. */
const MAX_MISSED = 1_000

/**
 * One live list for all whose query is the same and who are alike in everything that a policy can read. It holds the keys and
 * digests of the rows that its members have.
 */
export class LiveGroup {
  readonly key: string
  readonly who: Identity
  readonly session: DatabaseSession
  readonly callerKey: string
  /** On whom its reads and bytes are counted. */
  readonly payer: string
  readonly query: LiveQuery
  readonly members = new Set<LiveMember>()
  joining: Joining[] = []
  /** Undefined until it is planned in the schema of now. */
  plan: LivePlan | undefined
  dependencies: Dependencies | undefined
  /** What the queries in its policies answered; undefined while that is not known. */
  values: readonly (readonly string[])[] | undefined
  /** They may answer otherwise now. */
  hasOldValues = true
  /** Undefined until it was read. */
  rows: readonly HeldRow[] | undefined
  /** The positions that its members were sent with these rows. */
  positions = new Set<Position>()
  bytes = 0
  isDirty = false
  isReading = false
  missed: string[] = []
  lastReadAt = Number.NEGATIVE_INFINITY
  interval = 0
  sentInterval = 0
  timer: NodeJS.Timeout | undefined
  clock: NodeJS.Timeout | undefined
  failures = 0

  constructor(key: string, who: Identity, query: LiveQuery) {
    this.key = key
    this.who = who
    this.session = databaseSession(who)
    this.callerKey = callerKey(who)
    this.payer = ownerOf(who) ?? who.kind
    this.query = query
  }

  static keyOf(who: Identity, query: LiveQuery): string {
    return JSON.stringify([callerKey(who), query.key])
  }

  get isIdle(): boolean {
    return this.members.size === 0 && this.joining.length === 0
  }

  /** What the statement need not send. */
  get known(): readonly string[] {
    if (!this.rows) return []
    return this.plan?.isKeyed ? this.rows.map(({ d }) => d) : [digestOfAll(this.rows)]
  }

  /** Whether a client that was sent this position last holds the rows that are held here. */
  holdsSince(position: Position | undefined): boolean {
    return position !== undefined && this.positions.has(position)
  }

  /** A change of a row while the list was read: whether it was read before or after is not known. */
  miss(key: string): void {
    if (this.isDirty) return
    if (this.missed.length >= MAX_MISSED) this.isDirty = true
    else this.missed.push(key)
  }
}
