import type { Position } from '../../db/changes/log.ts'
import type { Subscriber } from './subscriber.ts'
import type { Interest } from './visibility/interest.ts'

/** Subscribers that always hear the same, so that they are judged and written for once. */
export type Channel = {
  readonly interest: Interest
  readonly members: Set<Subscriber>
  /** Batches that are being checked. */
  pending: number
  /** The last batch of which everything that concerns it has been told, and where that ends. */
  told: { seq: number; at: Position }
}
