import type { Change } from '../../../db/changes/log.ts'
import type { Position } from '../../../db/changes/position.ts'

/** Hears of each page of the log before subscriptions are told of it. Neither may wait. */
export type PageReader = {
  onPage(changes: readonly Change[]): void
  /** The log goes on elsewhere, as after a restore. */
  onLost(): void
  /** The least time between two pages that is short enough for it. */
  readonly gapMs: number
}

export type PageSource = {
  /** Everything up to here is committed, and pages that come after are told to readers. */
  readonly here: Position
  /** The log is read until the answer is called. */
  attach(reader: PageReader): Promise<() => void>
}
