import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { parsePage } from '../../core/page.ts'
import { maskValues } from '../../core/redact.ts'
import type { Db } from '../../db/db.ts'
import { type HistoryConfig, requireHistory, rowHistory, selectChanges } from '../../db/history/history.ts'
import { keyIs } from '../../db/rows/keys.ts'
import type { TableView } from '../../db/rows/table-view.ts'
import { nearTable } from '../../db/schema/did-you-mean.ts'
import { findOrRefresh, findTable, isVisible } from '../../db/schema/lookup.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { isAllowed, notAllowed, viewerOf } from '../../db/schema/viewer.ts'
import { ROW, sql } from '../../db/sql.ts'
import type { Feature } from '../../http/feature.ts'
import { type Call, jsonText, route } from '../../http/route.ts'
import { filterOf } from './filter.ts'
import { keyInPath } from './key.ts'
import { historyStatus } from './sql.ts'
import { type UndoDeps, undoRoute } from './undo.ts'

export type HistoryDeps = { db: Db; schema: SchemaCache; config: HistoryConfig } & Pick<UndoDeps, 'undo' | 'wake'>

const change = t.object({
  id: t.string(),
  transaction: t.string(),
  at: t.time(),
  action: t.oneOf(['create', 'update', 'delete', 'truncate']),
  table: t.string(),
  key: t.any({ description: 'the primary key: a value, or an array of several' }),
  actor: t.nullable(t.record(t.any(), { description: 'who made it' })),
  request_id: t.nullable(t.string()),
  undoes: t.optional(t.any()),
  changes: t.record(t.any(), { description: '{column: {old, new}}' }),
})
const page = t.object({ items: t.array(change), perPage: t.integer(), nextCursor: t.nullable(t.string()) })
const pageQuery = { perPage: t.integer({ default: 20, maximum: 200 }), cursor: t.string() }

export function createHistory({ db, schema, config, undo, wake }: HistoryDeps): Feature {
  const routes = [
    route('GET /api/collections/{table}/{id}/history', {
      summary: 'The changes of a row, newest first',
      auth: 'optional',
      leastRole: 'viewer',
      access: 'read',
      impersonable: true,
      limit: 'api',
      params: { table: t.string(), id: t.string() },
      query: pageQuery,
      answers: { 200: page },
      handle: async (call) => {
        const target = await tableOf(schema, call.params.table, call.who)
        const access = await requireHistory(db, config, call.who, target)
        const key = keyInPath(target.table, call.params.id, call.rawParams['id'] ?? '')
        const { perPage, before } = pageOf(call)
        const { retention } = config
        const { items, nextCursor } = await rowHistory(db, call.who, target, key, {
          retention,
          access,
          before,
          perPage,
        })
        if (items.length === 0 && before === undefined && !(await isThere(db, call.who, target, key))) {
          throw notFound('record not found', 'record_not_found')
        }
        return jsonText(200, envelope(items, perPage, nextCursor))
      },
    }),

    route('GET /api/admin/changes', {
      summary: 'The change log, newest first; secrets are masked',
      leastRole: 'viewer',
      auth: 'admin',
      query: {
        ...pageQuery,
        table: t.string({ description: 'table or schema.table' }),
        key: t.string({ description: 'a value, or the JSON array of several' }),
        user: t.string({ description: 'the id of the user who wrote' }),
        request_id: t.string(),
        transaction: t.string(),
        from: t.string({ description: 'RFC 3339 time or date' }),
        to: t.string({ description: 'RFC 3339 time, or a date, which is included' }),
      },
      answers: { 200: page },
      handle: async (call) => {
        const { perPage, before } = pageOf(call)
        const statement = selectChanges(filterOf(call.query), config.retention, { before, limit: perPage + 1 })
        const rows = await db.rows<{ id: string; text: string }>(SYSTEM, statement, { kind: 'slow', plain: true })
        const shown = rows.slice(0, perPage)
        const next = rows.length > perPage ? (shown.at(-1)?.id ?? null) : null
        return jsonText(
          200,
          envelope(
            shown.map(({ text }) => maskValues(text)),
            perPage,
            next,
          ),
        )
      },
    }),

    undoRoute({ db, retention: config.retention, undo, wake }),

    route('GET /api/admin/history', {
      summary: 'Whose history is open, and how far back it reaches',
      leastRole: 'viewer',
      auth: 'admin',
      answers: {
        200: t.object({
          items: t.array(
            t.object({
              table: t.string(),
              open: t.boolean(),
              actor: t.boolean({ description: 'whether callers see who made a change' }),
              reaches_back_to: t.nullable(t.time({ description: 'null: only changes made by the API are logged' })),
              bytes: t.integer(),
            }),
          ),
        }),
      },
      handle: async () =>
        jsonText(200, (await db.fly(SYSTEM, historyStatus(config), { kind: 'slow' })) ?? '{"items":[]}'),
    }),
  ]
  return { routes }
}

const CURSOR = /^\d{1,19}$/

function pageOf({ query }: Call<unknown, unknown>): { perPage: number; before: string | undefined } {
  const { perPage } = parsePage({ perPage: query['perPage'] }, { perPage: 20, maxPerPage: 200 })
  const cursor = query['cursor'] || undefined
  if (cursor !== undefined && !(CURSOR.test(cursor) && BigInt(cursor) < 2n ** 63n)) {
    throw badRequest('invalid cursor', 'invalid_cursor')
  }
  return { perPage, before: cursor }
}

const envelope = (items: readonly string[], perPage: number, nextCursor: string | null): string =>
  `{"items":[${items.join(',')}],"perPage":${perPage},"nextCursor":${JSON.stringify(nextCursor)}}`

/** The table as the caller sees it; one that it may not see is missing. */
async function tableOf(schema: SchemaCache, name: string, who: Identity): Promise<TableView> {
  const viewer = viewerOf(who)
  const found = await findOrRefresh(schema, (snapshot) => {
    const table = findTable(snapshot, name)
    return table && isVisible(table, viewer.role) ? { schema: snapshot, table, viewer } : undefined
  })
  if (!found)
    throw notFound(`collection not found: ${name}`, 'collection_not_found', nearTable(schema.read(), name, viewer))
  if (!isAllowed(found.schema, found.table, viewer)) throw notAllowed(found.table)
  return found
}

async function isThere(db: Db, who: Identity, { table }: TableView, key: readonly string[]): Promise<boolean> {
  const statement = sql`select true from ${table.ident} as ${ROW} where ${keyIs(table, ROW, key)}`
  try {
    return (await db.fly(who, statement, { kind: 'read' })) !== null
  } catch (error) {
    // A caller that may not read the key cannot look for the row.
    if (error instanceof AppError && error.status === 403) return false
    throw error
  }
}
