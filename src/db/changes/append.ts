import { createHash } from 'node:crypto'
import type { Identity } from '../../core/identity.ts'
import type { Table } from '../schema/snapshot.ts'
import { type Slot, type Slots, type Sql, sql } from '../sql.ts'

export type ChangeAction = 'create' | 'update' | 'delete'

/** Who made a change, as the log keeps it. */
function actorOf(who: Identity): string {
  switch (who.kind) {
    case 'user':
    case 'mfa':
      return JSON.stringify({ kind: 'user', id: who.id })
    case 'key':
      return JSON.stringify({ kind: 'key', id: who.keyId, ...(who.userId !== null && { userId: who.userId }) })
    case 'admin':
      return JSON.stringify({ kind: 'admin', id: who.tokenId })
    case 'anonymous':
    case 'system':
      return JSON.stringify({ kind: who.kind })
  }
}

/** What `svc.actor` holds: the actor and the server's word for it, which svc.current_actor() checks. */
export function signedActor(key: string, who: Identity): string {
  const actor = actorOf(who)
  return `${createHash('sha256').update(`${key}.${actor}.${key}`).digest('hex')} ${actor}`
}

/** A row that one statement of the server changed, as jsonb. */
export type ChangedRow = { action: ChangeAction; pk: Sql; record: Sql; oldRecord: Sql }

/** Several of one table, as arrays in the order of the changes. */
export type ChangedRows = { action: ChangeAction; pks: Sql; records: Sql; oldRecords: Sql }

/** Writes the log for one caller. Only with the server's key does PostgreSQL take its word; see svc.append_change(). */
export class Appender {
  readonly #key: string | Slot
  readonly #actor: string | Slot

  private constructor(key: string | Slot, actor: string | Slot) {
    this.#key = key
    this.#actor = actor
  }

  static of(key: string, who: Identity): Appender {
    return new Appender(key, actorOf(who))
  }

  /** The same for a statement that is made once for many callers. */
  within(slots: Slots): Appender {
    const put = (value: string | Slot): Slot => (typeof value === 'string' ? slots.put(value) : value)
    return new Appender(put(this.#key), put(this.#actor))
  }

  /** An expression for the select list of the statement that made the change: both are committed or neither. */
  appendOne(table: Table, { action, pk, record, oldRecord }: ChangedRow): Sql {
    return sql`svc.append_change(${this.#about(table, action)}, ${pk}, ${record}, ${oldRecord})`
  }

  append(table: Table, { action, pks, records, oldRecords }: ChangedRows): Sql {
    return sql`svc.append_changes(${this.#about(table, action)}, ${pks}, ${records}, ${oldRecords})`
  }

  #about(table: Table, action: ChangeAction): Sql {
    return sql`${this.#key}::text, ${action}::text, ${nameOf(table)}::pg_catalog.regclass, ${table.schema}::text,
      ${table.name}::text, ${this.#actor}::text`
  }

  /** The same for `made` new rows at once, with their values by column: one JSON object of arrays. */
  appendCreates(table: Table, made: Sql, packed: Sql): Sql {
    const key = table.primaryKey.map(({ name }) => name)
    const framing = [...table.columns.keys()].reduce((sum, name) => sum + Buffer.byteLength(name) + VALUE_FRAMING, 0)
    return sql`svc.append_creates(${this.#key}::text, ${nameOf(table)}::pg_catalog.regclass, ${table.schema}::text,
      ${table.name}::text, ${this.#actor}::text, ${key}::text[], ${framing}::int4, ${made}, ${packed})`
  }

  /** The whole row at the moment of evaluation, for callers who may not read every column of it. */
  wholeRow(table: Table, pk: Sql): Sql {
    return sql`svc.whole_row(${this.#key}::text, ${nameOf(table)}::pg_catalog.regclass, ${pk})`
  }
}

/** Of jsonb, two entries of four bytes and what aligns them. */
const VALUE_FRAMING = 12

const nameOf = ({ ident }: Table): string => ident.quoted
