import { AppError, badRequest, found, notFound } from '../../core/errors.ts'
import { ADMIN_ROLES, type AdminRole, type Identity, SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { isStorableJson } from '../../core/storable.ts'
import { changeAudited } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { Feature } from '../../http/feature.ts'
import { jsonText, noContent, type Route, route } from '../../http/route.ts'
import * as q from './saved-items-sql.ts'

type Admin = Extract<Identity, { kind: 'admin' }>
type RunnableRow = {
  id: string
  name: string
  query: string
  author: string
  authorRole: AdminRole
  roleNow: AdminRole | null
}
type Runnable = { id: string; name: string; query: string; author: string; runner: string; role: AdminRole }

export type SavedItems = Feature & {
  /** A saved query as this administrator may run it. */
  queryFor(who: Admin, id: string): Promise<Runnable>
}

const MAX_ITEMS = 1_000
const MAX_NAME = 200
const MAX_CONTENT = 100_000

const common = {
  id: t.uuid(),
  name: t.string(),
  own: t.boolean({ description: 'a viewer’s; the others are shared by all administrators' }),
  author: t.string({ description: 'who changed it last; `admin` is the shared password' }),
  role: t.oneOf(ADMIN_ROLES, { description: 'of the author then' }),
  createdAt: t.time(),
  updatedAt: t.time(),
}
const KINDS = {
  query: { path: 'queries', what: 'saved query', fields: { query: t.string() } },
  view: {
    path: 'views',
    what: 'saved view',
    fields: {
      table: t.string(),
      state: t.record(t.any(), { description: 'filter, sort, columns and what else a grid keeps' }),
    },
  },
} as const

/** Queries and views that administrators save. */
export function createSavedItems({ db }: { db: Db }): SavedItems {
  return {
    routes: [...itemRoutes(db, 'query'), ...itemRoutes(db, 'view')],
    async queryFor(who, id) {
      const runner = authorOf(who)
      const [row] = await db.rows<RunnableRow>(SYSTEM, q.queryToRun(id, runner))
      const { authorRole, roleNow, ...query } = found(row, 'saved query not found', 'not_found')
      const role = leastOf([authorRole, roleNow ?? 'viewer', runner.role])
      return { ...query, runner: runner.name, role }
    },
  }
}

function itemRoutes(db: Db, kind: q.ItemKind): Route[] {
  const { path, what, fields } = KINDS[kind]
  const item = t.object({ ...common, ...fields })
  const anyone = { auth: 'admin', leastRole: 'viewer' } as const
  const one = { ...anyone, params: { id: t.id(what) } } as const
  const missing = () => notFound(`${what} not found`)
  /** Of an item that is there for this administrator, whose role does not reach. */
  const refusal = async (id: string, author: q.Author): Promise<AppError> =>
    (await db.fly(SYSTEM, q.savedItem(kind, id, author))) === null
      ? missing()
      : new AppError('insufficient_role', 'viewers change their own items alone')

  return [
    route(`GET /api/admin/dashboard/${path}`, {
      summary: `Each ${what} that this administrator sees`,
      ...anyone,
      answers: { 200: t.object({ items: t.array(item), count: t.integer() }) },
      handle: async ({ who }) => jsonText(200, (await db.fly(SYSTEM, q.savedItems(kind, authorOf(who)))) ?? ''),
    }),
    route(`POST /api/admin/dashboard/${path}`, {
      summary: `Add a ${what}`,
      ...anyone,
      audit: `saved_${kind}.create`,
      body: t.object({ name: t.string(), ...fields }),
      answers: { 201: item },
      handle: async (call) => {
        const { name, ...content } = call.body
        const given = { name: nameOf(name), content: contentOf(content) }
        const work = async (tx: Tx): Promise<{ id: string; record: string }> => {
          await tx.run(q.lockItems)
          const [count] = await tx.rows<{ count: number }>(q.countItems(kind))
          if (count && count.count >= MAX_ITEMS) throw new AppError('limit_reached', `too many: max ${MAX_ITEMS}`)
          const insert = q.insertItem(kind, given.name, given.content, authorOf(call.who))
          const [made] = await tx.rows<{ id: string; record: string }>(insert)
          return found(made, `${what} not found`, 'not_found')
        }
        const { record } = await changeAudited(db, work, ({ id }) =>
          call.audit({ target: id, newValues: { name, ...content } }),
        )
        return jsonText(201, record)
      },
    }),
    route(`PATCH /api/admin/dashboard/${path}/{id}`, {
      summary: `Change a ${what}`,
      ...one,
      audit: `saved_${kind}.update`,
      body: t.object({ name: t.optional(t.string()), ...optionalFields(fields) }),
      answers: { 200: item },
      handle: async (call) => {
        const { name, ...content } = call.body as { name?: string }
        const { id } = call.params
        const author = authorOf(call.who)
        const given = { name: name === undefined ? undefined : nameOf(name), content: contentOf(content) }
        const work = async (tx: Tx): Promise<string> => {
          const [changed] = await tx.rows<{ record: string }>(q.updateItem(kind, id, given, author))
          if (!changed) throw await refusal(id, author)
          return changed.record
        }
        return jsonText(200, await changeAudited(db, work, () => call.audit({ newValues: call.body })))
      },
    }),
    route(`DELETE /api/admin/dashboard/${path}/{id}`, {
      summary: `Delete a ${what}`,
      ...one,
      audit: `saved_${kind}.delete`,
      answers: { 204: null },
      handle: async (call) => {
        const { id } = call.params
        const author = authorOf(call.who)
        const work = async (tx: Tx): Promise<string> => {
          const [gone] = await tx.rows<{ name: string }>(q.deleteItem(kind, id, author))
          if (!gone) throw await refusal(id, author)
          return gone.name
        }
        await changeAudited(db, work, (name) => call.audit({ oldValues: { name } }))
        return noContent
      },
    }),
  ]
}

const optionalFields = (fields: t.Fields): t.Fields =>
  Object.fromEntries(Object.entries(fields).map(([name, type]) => [name, t.optional(type)]))

const authorOf = (who: Identity): q.Author => {
  const { adminId, email, role } = who as Admin
  return { id: adminId ?? null, name: email ?? 'admin', role }
}

const leastOf = (roles: readonly AdminRole[]): AdminRole =>
  ADMIN_ROLES[Math.min(...roles.map((role) => ADMIN_ROLES.indexOf(role)))] ?? 'viewer'

function nameOf(given: string): string {
  const name = given.trim()
  if (name === '' || name.length > MAX_NAME || /\p{Cc}/u.test(name))
    throw badRequest(`name must be one line of 1 to ${MAX_NAME} characters`)
  return name
}

function contentOf(content: object): string {
  const text = JSON.stringify(content)
  if (text.length > MAX_CONTENT) throw badRequest(`a saved item must not exceed ${MAX_CONTENT} characters`)
  if (!isStorableJson(text)) throw badRequest('a saved item must not contain NUL or half a surrogate pair')
  return text
}
