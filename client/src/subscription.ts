import type { ApiError } from './errors.ts'

export type Action = 'create' | 'update' | 'delete'

/** One change of a row. Of a deleted row the key columns are known. */
export type Change<Row> =
  | { action: 'create' | 'update'; table: string; record: Row }
  | { action: 'delete'; table: string; record: Partial<Row> }

/** `connecting`: changes are on their way, and none is lost meanwhile. `ended`: there will be none any more. */
export type Status = 'connecting' | 'live' | 'ended'

export type Watcher = {
  onChange(change: Change<unknown>): void
  /** What was missed is no longer known: read anew. Changes go on from here. */
  onReset?: (() => void) | undefined
  onStatus?: ((status: Status) => void) | undefined
  /** The server refuses this subscription. */
  onError?: ((error: ApiError) => void) | undefined
}

/** One table, and perhaps a filter, for all who watch the same. */
export type Subscription = {
  readonly name: string
  readonly table: string
  readonly filter: string | undefined
  readonly watchers: Set<Watcher>
  /** Up to here everything was heard. */
  position: string | undefined
  status: Status
}

export type Message = {
  type: string
  ref?: number
  status?: string
  sub?: string
  id?: string
  position?: string
  action?: Action
  table?: string
  record?: unknown
  error?: string
  message?: string
  code?: number
}

/** A way to hear of changes. */
export type Listen = {
  add(subscription: Subscription): void
  remove(subscription: Subscription): void
  /** From where it was, perhaps as another user. */
  restart(): void
}

export function setStatus(subscription: Subscription, status: Status): void {
  if (subscription.status === status) return
  subscription.status = status
  for (const { onStatus } of subscription.watchers) onStatus?.(status)
}

export function hear(subscription: Subscription, { id, position = id, action, table, record }: Message): void {
  subscription.position = position
  for (const watcher of [...subscription.watchers]) {
    if (action) watcher.onChange({ action, table, record } as Change<unknown>)
    else watcher.onReset?.()
  }
}

/** There is nothing to hear any more. */
export function refuse(subscription: Subscription, error: ApiError): void {
  setStatus(subscription, 'ended')
  for (const { onError } of subscription.watchers) onError?.(error)
}
