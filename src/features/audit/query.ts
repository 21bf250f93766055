import { badRequest } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { parseMoment } from '../../core/moment.ts'
import { limitOf } from '../../core/page.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db } from '../../db/db.ts'
import { type AuditFilter, selectAudit } from './sql.ts'

/** The query string of GET /api/admin/audit → the JSON text of its answer. */
export const readAudit = async (db: Db, query: Readonly<Record<string, string>>): Promise<string> =>
  (await db.fly(SYSTEM, selectAudit(parseAuditFilter(query)), { kind: 'slow' })) ?? '{}'

const OPERATIONS = new Set(['INSERT', 'UPDATE', 'DELETE'])

export function parseAuditFilter(query: Readonly<Record<string, string>>): AuditFilter {
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
  if (from !== undefined) filter.from = parseMoment(from, 'from').at
  if (to !== undefined) {
    const { at, isDate } = parseMoment(to, 'to')
    if (isDate) filter.until = new Date(at.getTime() + 86_400_000)
    else filter.to = at
  }
  return filter
}
