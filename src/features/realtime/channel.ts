import type { Stream } from './stream.ts'
import type { Interest } from './visibility/interest.ts'

/** Streams that always hear the same, so that they are judged and written for once. */
export type Channel = {
  readonly interest: Interest
  readonly streams: Set<Stream>
  /** Batches that are being checked. */
  pending: number
}
