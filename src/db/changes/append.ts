import { createHash } from 'node:crypto'
import { type Identity, impersonationOf } from '../../core/identity.ts'
import type { Table } from '../schema/snapshot.ts'
import { nameLiteral, type Slot, type Slots, type Sql, sql } from '../sql.ts'

export type ChangeAction = 'create' | 'update' | 'delete'

/** The author of a change, as the log stores it. */
function actorOf(who: Identity): string {
  const impersonation = impersonationOf(who)
  // Not the address: histories are read by callers too.
  const by = impersonation && { impersonatedBy: impersonation.adminId ?? 'admin' }
  switch (who.kind) {
    case 'user':
    case 'mfa':
      return JSON.stringify({ kind: 'user', id: who.id, ...by })
    case 'key':
      return JSON.stringify({ kind: 'key', id: who.keyId, ...(who.userId !== null && { userId: who.userId }), ...by })
    case 'admin':
      return JSON.stringify({ kind: 'admin', id: who.tokenId, ...(who.adminId && { adminId: who.adminId }) })
    case 'anonymous':
    case 'system':
      return JSON.stringify({ kind: who.kind, ...by })
  }
}

/** The content of `svc.actor`: the actor and the server's signature, which svc.current_actor() checks. */
export function signedActor(key: string, who: Identity): string {
  const actor = actorOf(who)
  return `${createHash('sha256').update(`${key}.${actor}.${key}`).digest('hex')} ${actor}`
}

/** A row that one statement of the server changed: its key as text (see `keyText`), and its images as json. */
export type ChangedRow = { action: ChangeAction; key: Sql; record: Sql; oldRecord: Sql }

/** Several of one table, as arrays in the order of the changes. */
export type ChangedRows = { action: ChangeAction; keys: Sql; records: Sql; oldRecords: Sql }

type Values<T> = { readonly key: T; readonly actor: T; readonly requestId: T }

/** Writes the log for one request. PostgreSQL requires the server's key; see svc.append_change(). */
export class Appender {
  readonly #values: Values<string | Slot>

  private constructor(values: Values<string | Slot>) {
    this.#values = values
  }

  static of(key: string, who: Identity, requestId: string): Appender {
    return new Appender({ key, actor: actorOf(who), requestId })
  }

  /** This appender with its values in slots, for a statement that is built once for many requests. */
  within(slots: Slots): Appender {
    const put = (value: string | Slot): Slot => (typeof value === 'string' ? slots.put(value) : value)
    const { key, actor, requestId } = this.#values
    return new Appender({ key: put(key), actor: put(actor), requestId: put(requestId) })
  }

  /** An expression for the select list of the changing statement, so that both commit or neither does. */
  appendOne(table: Table, { action, key, record, oldRecord }: ChangedRow): Sql {
    return sql`svc.append_change(${this.#about(table)}, ${LETTER[action]}, ${key}, ${record}, ${oldRecord})`
  }

  append(table: Table, { action, keys, records, oldRecords }: ChangedRows): Sql {
    return sql`svc.append_changes(${this.#about(table)}, ${LETTER[action]}, ${keys}, ${records}, ${oldRecords})`
  }

  /** Appends `made` new rows at once, with their values by column: one JSON object of arrays. */
  appendCreates(table: Table, made: Sql, packed: Sql): Sql {
    const key = table.primaryKey.map(({ name }) => name)
    const framing = [...table.columns.keys()].reduce((sum, name) => sum + Buffer.byteLength(name) + VALUE_FRAMING, 0)
    return sql`svc.append_creates(${this.#about(table)}, ${key}::text[], ${framing}::int4, ${made}, ${packed})`
  }

  /** The whole row at the time of evaluation, for callers who may not read every column. */
  wholeRow(table: Table, pk: Sql): Sql {
    return sql`svc.whole_row(${this.#values.key}::text, ${regclass(table)}, ${pk})::pg_catalog.json`
  }

  #about(table: Table): Sql {
    const { key, actor, requestId } = this.#values
    return sql`${key}::text, ${regclass(table)}, svc.shape_of(${regclass(table)}), ${actor}::text, ${requestId}::text`
  }
}

const LETTER: Record<ChangeAction, Sql> = { create: sql`'c'`, update: sql`'u'`, delete: sql`'d'` }

/** Of JSON, two quotes, a colon, a comma, and what the value's own form may take. */
const VALUE_FRAMING = 12

/** A constant of the statement, so that svc.shape_of() is evaluated at planning time. */
const regclass = ({ ident }: Table): Sql => sql`${nameLiteral(ident)}::pg_catalog.regclass`
