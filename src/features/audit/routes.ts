import * as t from '../../core/json-type.ts'
import type { Loop } from '../../db/loop.ts'
import { sweep } from '../../db/sweep.ts'
import type { Feature } from '../../http/feature.ts'
import { jsonText, route } from '../../http/route.ts'
import { DataAudit, type DataAuditDeps } from './data-audit.ts'
import { readAudit } from './query.ts'
import { oldAudit } from './sql.ts'

const auditPage = t.object({
  items: t.array(
    t.object({
      id: t.uuid(),
      timestamp: t.time(),
      actor: t.oneOf(['admin', 'user', 'anonymous']),
      action: t.string({ description: 'such as `webhook.create`' }),
      target: t.string({ description: 'id of the thing, or the table' }),
      user_id: t.optional(t.uuid()),
      api_key_id: t.optional(t.uuid()),
      admin: t.optional(t.string({ description: 'address of the administrator; absent for the shared password' })),
      impersonated_by: t.optional(t.string({ description: 'the administrator who acted as this caller' })),
      table_name: t.optional(t.string()),
      record_id: t.optional(t.any({ description: 'key columns of the record' })),
      operation: t.optional(t.oneOf(['INSERT', 'UPDATE', 'DELETE'])),
      old_values: t.optional(t.any()),
      new_values: t.optional(t.any()),
      ip_address: t.optional(t.string()),
    }),
  ),
  count: t.integer({ description: 'items in this answer' }),
  limit: t.integer(),
  offset: t.integer(),
})

const auditQuery = {
  table: t.string({ description: 'table or schema.table' }),
  user_id: t.uuid(),
  operation: t.string({ description: 'INSERT, UPDATE or DELETE, in any case' }),
  action: t.string(),
  from: t.string({ description: 'RFC 3339 time or date' }),
  to: t.string({ description: 'RFC 3339 time, or a date, which is included' }),
  limit: t.integer({ default: 100, maximum: 500 }),
  offset: t.integer({ default: 0 }),
}

/** The audit log. Admin routes write their own entries; entries for changes of data are written here. */
export function createAuditTrail(deps: DataAuditDeps & { retentionDays: number }): Feature {
  const { db, observe, retentionDays } = deps
  const data = new DataAudit(deps)
  let sweeping: Loop | undefined

  return {
    routes: [
      route('GET /api/admin/audit', {
        summary: 'Who changed what, newest first',
        leastRole: 'viewer',
        auth: 'admin',
        query: auditQuery,
        answers: { 200: auditPage },
        handle: async ({ query }) => jsonText(200, await readAudit(db, query)),
      }),
    ],
    async start() {
      await data.start()
      sweeping = sweep({ db, observe, what: 'old audit entries', remove: [oldAudit(retentionDays)] })
    },
    async stop() {
      data.stop()
      await sweeping?.stop()
    },
  }
}
