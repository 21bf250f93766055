import type { AuditEntry } from '../core/audit/entry.ts'
import { type Identity, userIdOf } from '../core/identity.ts'
import { isUuid } from '../core/uuid.ts'
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

type Made = { target?: Sql; newValues?: Sql }

function valuesOf({ who, action, target, ip, oldValues, newValues }: AuditEntry, made: Made = {}): Sql {
  const apiKeyId = who.kind === 'key' && isUuid(who.keyId) ? who.keyId : null
  return sql`${actorOf(who)}, ${action}, ${made.target ?? sql`${target.slice(0, 1000).replaceAll('\0', '')}`}, ${userIdOf(who)}::uuid, ${apiKeyId}::uuid,
    ${valuesText(oldValues)}::jsonb, ${made.newValues ?? sql`${valuesText(newValues)}::jsonb`}, ${ip === '' ? null : ip}`
}

const actorOf = (who: Identity): 'admin' | 'user' | 'anonymous' => {
  if (who.kind === 'admin' || who.kind === 'system') return 'admin'
  return who.kind === 'anonymous' ? 'anonymous' : 'user'
}

const SECRET_NAME = /passw|secret|token|credential|private|(^|_)key$|apiKey$|(^|_)hash$/i
const MAX_CHARS = 100_000

/** The last line of defence: whoever wrote the entry should not have put a secret into it. */
function valuesText(values: unknown): string | null {
  if (values === undefined || values === null) return null
  const text = JSON.stringify(values, (name, value) => {
    if (name !== '' && SECRET_NAME.test(name) && typeof value !== 'boolean') return '***'
    return typeof value === 'string' ? value.replaceAll('\0', '') : value
  })
  return text.length > MAX_CHARS ? JSON.stringify({ truncated: true, length: text.length }) : text
}
