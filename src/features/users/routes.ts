import { notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { pageQuery, parsePage } from '../../core/page.ts'
import { user } from '../../core/user.ts'
import { changeAudited } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { authDisabled } from '../../http/guard.ts'
import { jsonText, noContent, type Route, requireEnabled, route } from '../../http/route.ts'
import { listUsers } from './sql.ts'

export function createUsers(deps: {
  db: Db
  authEnabled: boolean
  /** Returns no row if there is no such user. */
  deleteUser: (id: string) => Sql
  /** Ends a user's cached tokens in this process at once. */
  onRevoked: (userId: string) => void
}): { routes: Route[] } {
  const { db } = deps
  const admin = { auth: 'admin', requires: requireEnabled(deps.authEnabled, authDisabled) } as const
  const routes = [
    route('GET /api/admin/users', {
      summary: 'Users, newest first',
      ...admin,
      query: { ...pageQuery, search: t.string({ description: 'part of the address, in any case' }) },
      answers: { 200: t.pageOf(user) },
      handle: async ({ query }) => {
        const list = listUsers(parsePage(query), query['search'] ?? '')
        return jsonText(200, (await db.fly(SYSTEM, list)) ?? '')
      },
    }),
    route('DELETE /api/admin/users/{id}', {
      summary: 'Delete a user and all that hangs on it',
      ...admin,
      audit: 'user.delete',
      params: { id: t.id('user') },
      answers: { 204: null },
      handle: async (call) => {
        const { id } = call.params
        await changeAudited(
          db,
          async (tx) => {
            if ((await tx.run(deps.deleteUser(id))) === 0) throw notFound('user not found', 'user_not_found')
          },
          () => call.audit(),
        )
        deps.onRevoked(id)
        return noContent
      },
    }),
  ]
  return { routes }
}
