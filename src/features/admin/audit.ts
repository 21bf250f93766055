import { badRequest } from '../../core/errors.ts'
import { type Identity, SYSTEM, userIdOf } from '../../core/identity.ts'
import { limitOf } from '../../core/page.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db } from '../../db/db.ts'
import { type AuditFilter, type AuditRow, insertAudit, selectAudit } from './sql.ts'

export type AuditEntry = {
  who: Identity
  /** Such as `webhook.create`. */
  action: string
  /** Resource id or table. */
  target?: string | undefined
  ip?: string | undefined
  oldValues?: unknown
  newValues?: unknown
}
export type Audit = (entry: AuditEntry) => Promise<void>

export const createAudit =
  (db: Db): Audit =>
  async (entry) => {
    await db.run(SYSTEM, insertAudit(toRow(entry)))
  }

const actorOf = (who: Identity): AuditRow['actor'] => {
  if (who.kind === 'admin' || who.kind === 'system') return 'admin'
  return who.kind === 'anonymous' ? 'anonymous' : 'user'
}

export const toRow = ({ who, action, target = '', ip, oldValues, newValues }: AuditEntry): AuditRow => ({
  actor: actorOf(who),
  action,
  target: target.slice(0, 1000).replaceAll('\0', ''),
  userId: userIdOf(who),
  apiKeyId: who.kind === 'key' && isUuid(who.keyId) ? who.keyId : null,
  oldValues: valuesText(oldValues),
  newValues: valuesText(newValues),
  ip: ip ?? null,
})

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

/** SQL as the audit keeps it: passwords of roles are not for reading. */
export const auditableQuery = (query: string): string =>
  query.slice(0, 50_000).replace(/\b(password\s+)(e?'(?:[^'\\]|''|\\.)*'|\$(\w*)\$.*?\$\3\$)/gis, "$1'***'")

/** The query string of GET /api/admin/audit → the JSON text of its answer. */
export const readAudit = async (db: Db, query: Readonly<Record<string, string>>): Promise<string> =>
  (await db.fly(SYSTEM, selectAudit(parseFilter(query)), { lane: 'slow' })) ?? '{}'

const OPERATIONS = new Set(['INSERT', 'UPDATE', 'DELETE'])

export function parseFilter(query: Readonly<Record<string, string>>): AuditFilter {
  const given = (name: string) => (query[name] === '' ? undefined : query[name]?.replaceAll('\0', ''))
  const filter: AuditFilter = limitOf(query, { limit: 100, maxLimit: 500 })
  const [table, action, userId] = [given('table'), given('action'), given('user_id')]
  if (table !== undefined) filter.table = table
  if (action !== undefined) filter.action = action
  if (userId !== undefined) {
    if (!isUuid(userId)) throw badRequest('invalid user_id format')
    filter.userId = userId
  }
  const operation = given('operation')?.toUpperCase()
  if (operation !== undefined) {
    if (!OPERATIONS.has(operation)) throw badRequest('invalid operation')
    filter.operation = operation
  }
  const [from, to] = [given('from'), given('to')]
  if (from !== undefined) filter.from = moment(from, 'from').at
  if (to !== undefined) {
    const { at, isDate } = moment(to, 'to')
    if (isDate) filter.until = new Date(at.getTime() + 86_400_000)
    else filter.to = at
  }
  return filter
}

const DATE = /^\d{4}-\d\d-\d\d$/
// RFC 3339 section 5.6; a `+` that was not percent-encoded arrives as a space.
const TIME = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d(?:\.\d+)?)(?:[Zz]|([+ -])(\d\d:\d\d))$/

function moment(text: string, name: string): { at: Date; isDate: boolean } {
  const isDate = DATE.test(text)
  const [, date = text, time = '00:00:00', sign, offset] = TIME.exec(text) ?? []
  if (!isDate && time === '00:00:00' && date === text) throw badRequest(`invalid ${name}`)
  const zone = offset === undefined ? 'Z' : `${sign === ' ' ? '+' : sign}${offset}`
  const at = new Date(`${date}T${time}${zone}`)
  // Date rolls 31 February over into March; such a day does not exist.
  const isReal = new Date(`${date}T00:00:00Z`).toJSON()?.startsWith(date) ?? false
  if (Number.isNaN(at.getTime()) || !isReal) throw badRequest(`invalid ${name}`)
  return { at, isDate }
}
