import { callerKey, type DatabaseSession, databaseSession, type Identity, ownerOf } from '../../../core/identity.ts'
import { mayDo } from '../../../db/schema/lookup.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import { isAllowed, type Viewer, viewerOf } from '../../../db/schema/viewer.ts'
import { hasFilter, type Wanted, wants } from './wanted.ts'

/** What one subscriber wants, and as whom. Subscribers with the same key always get the same. */
export type Interest = {
  readonly who: Identity
  readonly viewer: Viewer
  readonly session: DatabaseSession
  /** Of `who`: callers with the same key see the same rows, so that PostgreSQL is asked once for all of them. */
  readonly callerKey: string
  /** On whom the time of its checks is counted. */
  readonly payer: string
  readonly wanted: Wanted
  /** Callers write filters, so their cost is counted on the caller. */
  readonly isFiltered: boolean
  readonly key: string
}

export function interestOf(who: Identity, wanted: Wanted): Interest {
  const viewer = viewerOf(who)
  const session = databaseSession(who)
  const caller = callerKey(who)
  const key = JSON.stringify([caller, wanted.others, [...wanted.tables].sort()])
  const payer = ownerOf(who) ?? who.kind
  return { who, viewer, session, callerKey: caller, payer, wanted, isFiltered: hasFilter(wanted), key }
}

/** The key of a table in Schema.tables. */
export const interestKey = ({ schema, name }: { schema: string; name: string }): string => `${schema}.${name}`

/** Whether a key that is limited to tables reaches this one; it reaches files by a storage scope. */
export const mayHear = (schema: Schema, table: Table, viewer: Viewer, who: Identity): boolean =>
  table === schema.objects ? who.kind !== 'key' || who.grant.files.read : isAllowed(schema, table, viewer)

/** May this subscriber get changes of this table at all? A view's rows belong to tables whose policies cannot be asked. */
export function listensTo(interest: Interest, key: string, table: Table | undefined, schema: Schema): boolean {
  if (!wants(interest.wanted, key)) return false
  // Files are not among all tables: they are named.
  if (table && table === schema.objects && !interest.wanted.tables.has(key)) return false
  if (interest.viewer.role === 'none') return true
  if (!table || table.kind === 'view' || table.kind === 'materialized_view') return false
  return mayDo(table, interest.viewer.role, 'select') && mayHear(schema, table, interest.viewer, interest.who)
}
