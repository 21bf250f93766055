import { notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { pageOf } from '../../core/page.ts'
import { uuidParam } from '../../core/uuid.ts'
import type { Db } from '../../db/db.ts'
import { jsonText, noContent, type Route, route } from '../../http/route.ts'
import { deleteUser, listUsers } from './sql.ts'

export function createUsers(deps: {
  db: Db
  authEnabled: boolean
  /** Makes the end of a user's tokens count at once in this process. */
  revoked: (userId: string) => void
}): { routes: Route[] } {
  const { db } = deps
  const requireAuth = (): void => {
    if (!deps.authEnabled) throw notFound('auth is not enabled')
  }
  const routes = [
    route('GET /api/admin/users', {
      auth: 'admin',
      handle: async ({ query }) => {
        requireAuth()
        const list = listUsers(pageOf({ page: query['page'], perPage: query['perPage'] }), query['search'] ?? '')
        return jsonText(200, (await db.fly(SYSTEM, list)) ?? '')
      },
    }),
    route('DELETE /api/admin/users/{id}', {
      auth: 'admin',
      audit: 'user.delete',
      handle: async ({ params }) => {
        requireAuth()
        const id = uuidParam(params['id'], 'user')
        if ((await db.run(SYSTEM, deleteUser(id))) === 0) throw notFound('user not found')
        deps.revoked(id)
        return noContent
      },
    }),
  ]
  return { routes }
}
