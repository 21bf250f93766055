import type { Identity } from './identity.ts'

/** One line of the trail: who did what to which thing. */
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

/** What an entry should say beyond who calls and the route's action; never secrets. */
export type AuditNote = {
  /** Default: the last path parameter, else the `id` of the answer. */
  target?: string
  oldValues?: unknown
  newValues?: unknown
}

/** What somebody does and answers for: a call is one. The rules of a feature take its entry into their transaction. */
export type AuditSource = { audit(note?: AuditNote): AuditEntry }
