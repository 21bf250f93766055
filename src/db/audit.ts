import type { AuditEntry } from '../core/audit-entry.ts'
import { reasonOf } from '../core/errors.ts'
import { type Identity, impersonationOf, SYSTEM, userIdOf } from '../core/identity.ts'
import { MASK, SECRET_FIELD } from '../core/redact.ts'
import { isUuid } from '../core/uuid.ts'
import type { Db, Tx } from './db.ts'
import { type Sql, sql } from './sql.ts'

/** An audit entry as a statement for the flight or transaction of its change, so that both commit or neither does. */
export const auditStatement = (entry: AuditEntry, before: ReturnedValues = {}): Sql =>
  sql`${INSERT} values (${valuesOf(entry, before)})`

const INSERT = sql`insert into svc.audit_log
  (actor, admin, impersonated_by, action, target, user_id, api_key_id, old_values, new_values, ip_address)`

/**
 * Runs `change` (INSERT, UPDATE or DELETE with RETURNING), returns its rows, and writes an entry if there are any.
 * `returned` are expressions over the returned row, `svc_changed`, for values that only the database knows.
 */
export const audited = (entry: AuditEntry, change: Sql, returned: ReturnedValues = {}): Sql => sql`
  with svc_changed as (${change}), svc_noted as (
    ${INSERT} select ${valuesOf(entry, returned)} from svc_changed limit 1
  )
  select * from svc_changed`

/**
 * For a change of several statements, or an entry that depends on the result. `change` throws when there is nothing to
 * change; `entry` gets its result.
 */
export const changeAudited = <T>(
  db: Db,
  change: (tx: Tx) => Promise<T>,
  entry: (result: T) => AuditEntry,
): Promise<T> =>
  db.tx(SYSTEM, async (tx) => {
    const result = await change(tx)
    await tx.run(auditStatement(entry(result)))
    return result
  })

/**
 * For effects outside a transaction, such as a mail. The entry is written first, with outcome `unknown`, so that no crash
 * loses it; then the outcome or the error is added. An effect that failed without a trace (`isUndone`) leaves no entry.
 */
export async function auditedEffect<T>(
  db: Db,
  entry: AuditEntry,
  effect: () => Promise<T>,
  isUndone: (error: unknown) => boolean = () => false,
): Promise<T> {
  const begun = { ...entry, newValues: { ...(entry.newValues as object | undefined), outcome: 'unknown' } }
  const id = await db.fly(SYSTEM, sql`${auditStatement(begun)} returning id`)
  // If this fails, the entry keeps the outcome `unknown`, which is correct.
  const end = (statement: Sql): Promise<unknown> => db.run(SYSTEM, statement).catch(() => undefined)
  try {
    const result = await effect()
    await end(withOutcome(id, sql`'{}'::jsonb`))
    return result
  } catch (error) {
    const failure = sql`jsonb_build_object('error', ${reasonOf(error).replaceAll('\0', '')}::text)`
    await end(isUndone(error) ? sql`delete from svc.audit_log where id = ${id}::uuid` : withOutcome(id, failure))
    throw error
  }
}

const withOutcome = (id: string | null, more: Sql): Sql => sql`
  update svc.audit_log set new_values = nullif((new_values - 'outcome') || ${more}, '{}') where id = ${id}::uuid`

type ReturnedValues = { target?: Sql; oldValues?: Sql; newValues?: Sql }

/**
 * Old values from a query for one JSON text. A statement reads the rows as they were before it, so in `audited` this is the
 * row before the change; an `auditStatement` with it has to precede the change.
 */
export const before = (query: Sql): { oldValues: Sql } => ({ oldValues: sql`(${query})::jsonb` })

/** As `before`, from a query for one row. */
export const rowBefore = (query: Sql): { oldValues: Sql } =>
  before(sql`select to_jsonb(svc_before) from (${query}) svc_before`)

/** Target and new values of a change that returns the columns of its row. */
export const MADE_ROW = { target: sql`svc_changed.id`, newValues: sql`to_jsonb(svc_changed)` }

/** As MADE_ROW, for a change that returns JSON text, `record`. */
export const MADE_RECORD = { target: sql`svc_changed.record::jsonb->>'id'`, newValues: sql`svc_changed.record::jsonb` }

function valuesOf({ who, action, target, ip, oldValues, newValues }: AuditEntry, returned: ReturnedValues = {}): Sql {
  const apiKeyId = who.kind === 'key' && isUuid(who.keyId) ? who.keyId : null
  const admin = who.kind === 'admin' ? (who.email ?? null) : null
  return sql`${actorOf(who)}, ${admin}, ${impersonationOf(who)?.by ?? null}, ${action}, ${returned.target ?? sql`${target.slice(0, 1000).replaceAll('\0', '')}`}, ${userIdOf(who)}::uuid, ${apiKeyId}::uuid,
    ${returned.oldValues ?? sql`${valuesText(oldValues)}::jsonb`}, ${returned.newValues ?? sql`${valuesText(newValues)}::jsonb`}, ${ip === '' ? null : ip}`
}

const actorOf = (who: Identity): 'admin' | 'user' | 'anonymous' => {
  if (who.kind === 'admin' || who.kind === 'system') return 'admin'
  return who.kind === 'anonymous' ? 'anonymous' : 'user'
}

const MAX_CHARS = 100_000

/** Masks secrets that the code which made the entry should have left out. */
function valuesText(values: unknown): string | null {
  if (values === undefined || values === null) return null
  const text = JSON.stringify(values, (name, value) => {
    if (name !== '' && SECRET_FIELD.test(name) && typeof value !== 'boolean') return MASK
    return typeof value === 'string' ? value.replaceAll('\0', '') : value
  })
  return text.length > MAX_CHARS ? JSON.stringify({ truncated: true, length: text.length }) : text
}
