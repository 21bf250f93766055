import type { AuditEntry } from '../core/audit-entry.ts'
import { reasonOf } from '../core/errors.ts'
import { type Identity, SYSTEM, userIdOf } from '../core/identity.ts'
import { MASK, SECRET_FIELD } from '../core/redact.ts'
import { isUuid } from '../core/uuid.ts'
import type { Db, Tx } from './db.ts'
import { type Sql, sql } from './sql.ts'

/** An entry for the flight or the transaction of the change that it is about: both are committed or neither. */
export const auditStatement = (entry: AuditEntry): Sql => sql`${INSERT} values (${valuesOf(entry)})`

const INSERT = sql`insert into svc.audit_log
  (actor, action, target, user_id, api_key_id, old_values, new_values, ip_address)`

/**
 * A change that leaves its entry if it changed something: `change` is an INSERT, UPDATE or DELETE with RETURNING, and the
 * answer is what it returned. What only the database knows are expressions over the returned row, `svc_changed`.
 */
export const audited = (entry: AuditEntry, change: Sql, made: Made = {}): Sql => sql`
  with svc_changed as (${change}), svc_noted as (
    ${INSERT} select ${valuesOf(entry, made)} from svc_changed limit 1
  )
  select * from svc_changed`

/**
 * A change of several statements, or one whose outcome the entry tells: `change` throws when there is nothing to change,
 * and `entry` is told what it made.
 */
export const changeAudited = <T>(db: Db, change: (tx: Tx) => Promise<T>, entry: (made: T) => AuditEntry): Promise<T> =>
  db.tx(SYSTEM, async (tx) => {
    const made = await change(tx)
    await tx.run(auditStatement(entry(made)))
    return made
  })

/**
 * For effects that no transaction holds, such as a mail: the entry stands before them, so that no crash loses it. It says that
 * nobody knows the outcome until it is known, and tells of a failure, which may be that of the answer alone. Where the
 * failure is known to have left nothing behind (`isUndone`), nothing was written and there is no entry.
 */
export async function auditedEffect<T>(
  db: Db,
  entry: AuditEntry,
  effect: () => Promise<T>,
  isUndone: (error: unknown) => boolean = () => false,
): Promise<T> {
  const begun = { ...entry, newValues: { ...(entry.newValues as object | undefined), outcome: 'unknown' } }
  const id = await db.fly(SYSTEM, sql`${auditStatement(begun)} returning id`)
  // Where this cannot be written, the entry stays as it is, which is true as well.
  const end = (statement: Sql): Promise<unknown> => db.run(SYSTEM, statement).catch(() => undefined)
  try {
    const result = await effect()
    await end(settled(id, sql`'{}'::jsonb`))
    return result
  } catch (error) {
    const failure = sql`jsonb_build_object('error', ${reasonOf(error).replaceAll('\0', '')}::text)`
    await end(isUndone(error) ? sql`delete from svc.audit_log where id = ${id}::uuid` : settled(id, failure))
    throw error
  }
}

const settled = (id: string | null, more: Sql): Sql => sql`
  update svc.audit_log set new_values = nullif((new_values - 'outcome') || ${more}, '{}') where id = ${id}::uuid`

type Made = { target?: Sql; newValues?: Sql }

/** What the entry says of a change that returns the thing as its columns. */
export const MADE_ROW = { target: sql`svc_changed.id`, newValues: sql`to_jsonb(svc_changed)` }

/** The same where it returns JSON text, `record`. */
export const MADE_RECORD = { target: sql`svc_changed.record::jsonb->>'id'`, newValues: sql`svc_changed.record::jsonb` }

function valuesOf({ who, action, target, ip, oldValues, newValues }: AuditEntry, made: Made = {}): Sql {
  const apiKeyId = who.kind === 'key' && isUuid(who.keyId) ? who.keyId : null
  return sql`${actorOf(who)}, ${action}, ${made.target ?? sql`${target.slice(0, 1000).replaceAll('\0', '')}`}, ${userIdOf(who)}::uuid, ${apiKeyId}::uuid,
    ${valuesText(oldValues)}::jsonb, ${made.newValues ?? sql`${valuesText(newValues)}::jsonb`}, ${ip === '' ? null : ip}`
}

const actorOf = (who: Identity): 'admin' | 'user' | 'anonymous' => {
  if (who.kind === 'admin' || who.kind === 'system') return 'admin'
  return who.kind === 'anonymous' ? 'anonymous' : 'user'
}

const MAX_CHARS = 100_000

/** The last line of defence: whoever wrote the entry should not have put a secret into it. */
function valuesText(values: unknown): string | null {
  if (values === undefined || values === null) return null
  const text = JSON.stringify(values, (name, value) => {
    if (name !== '' && SECRET_FIELD.test(name) && typeof value !== 'boolean') return MASK
    return typeof value === 'string' ? value.replaceAll('\0', '') : value
  })
  return text.length > MAX_CHARS ? JSON.stringify({ truncated: true, length: text.length }) : text
}
