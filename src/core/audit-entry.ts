import type { Identity } from './identity.ts'

/** One entry of the audit log: who did what to which resource. */
export type AuditEntry = {
  readonly who: Identity
  /** Such as `webhook.create`. */
  readonly action: string
  /** Resource id or table. */
  readonly target: string
  readonly ip: string
  readonly requestId?: string
  readonly oldValues?: unknown
  readonly newValues?: unknown
}

/** Details of an audit entry beyond the caller and the route's action; never secrets. */
export type AuditNote = {
  /** Default: the last path parameter, else the `id` of the response. */
  target?: string
  oldValues?: unknown
  newValues?: unknown
}

/** Makes the audit entry that is written in the transaction of a change; an HTTP call is one. */
export type AuditSource = { audit(note?: AuditNote): AuditEntry }
