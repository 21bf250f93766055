import { notFound } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import type { AsOf } from '../../db/history/as-of.ts'
import type { TriesWrites } from '../../db/history/dry-run.ts'
import type { Cursors } from '../../db/rows/cursors.ts'
import type { LiveQuery } from '../../db/rows/live-query.ts'
import { SqlCache } from '../../db/rows/sql-cache.ts'
import type { TableView } from '../../db/rows/table-view.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import type { Trigrams } from '../../db/search/trigrams.ts'
import { dryRunReply, isDryRun } from '../../http/dry-run.ts'
import { type Call, jsonText, type Reply, type Route, route } from '../../http/route.ts'
import * as answers from './answers.ts'
import { writeBatch } from './batch/batch.ts'
import { listAggregates, listRows, type ReadFrom, readStatement } from './list/list.ts'
import { createPast } from './list/past.ts'
import { needsTrigrams } from './list/stages/search/parse.ts'
import type { ListDeps } from './list/stages/stage.ts'
import { listNear } from './list/vectors/list-near.ts'
import { parseVectors } from './list/vectors/parse.ts'
import type { Embed } from './list/vectors/statements.ts'
import { onTable } from './target/find-table.ts'
import { keyFromPath } from './target/key.ts'
import { createRow, deleteRow, updateRow, type WriteDeps } from './write/write-rows.ts'

export type CollectionsDeps = {
  db: Db
  schema: SchemaCache
  /** Writes are appended to it; its reader is woken after the commit. */
  log: Pick<ChangeLog, 'appender' | 'wake'>
  dryRuns: TriesWrites
  asOf: AsOf
  listDeps: ListDeps
  trigrams: Trigrams
  /** Undefined: no provider is configured. */
  embed: Embed | undefined
  /** Must have the same key in all processes. */
  cursors: Cursors
  /** `api.statement_timeout` in milliseconds. */
  timeoutMs: number
  from?: ReadFrom | undefined
  liveList: (name: string, query: Readonly<Record<string, string>>) => LiveQuery
  /** Answers a list as a stream that is kept true. */
  liveStream: (call: Call, list: () => LiveQuery) => Promise<Reply>
}

export function createCollections(deps: CollectionsDeps): { routes: Route[] } {
  const { db, schema, log, dryRuns, asOf, listDeps, trigrams, embed, cursors, timeoutMs, from } = deps
  const sqlCache = new SqlCache()
  const reader = { db, sqlCache, listDeps, cursors, embed, from }
  const writer = { db, sqlCache, log, timeoutMs }
  const at = <T>(call: Call, work: (target: TableView) => Promise<T>): Promise<T> =>
    onTable(schema, call.params['table'] ?? '', call.who, work)

  const live = (call: Call): Promise<Reply> =>
    deps.liveStream(call, () => deps.liveList(call.params['table'] ?? '', call.query))
  const past = createPast({ ...reader, asOf, at })

  type Write = (deps: WriteDeps, call: Call, target: TableView) => Promise<Reply>
  const write = (call: Call, work: Write): Promise<Reply> =>
    isDryRun(call) ? tryOut(call, work) : at(call, (target) => work(writer, call, target))
  const tryOut = async (call: Call, work: Write): Promise<Reply> => {
    const run = dryRuns.start(call.who, call.cancelSignal)
    const reply = await at(call, (target) => work({ ...writer, db: run.db }, call, target))
    return dryRunReply(reply, run.told)
  }

  const routes = [
    route('GET /api/collections/{table}', {
      summary: 'List rows',
      auth: 'optional',
      leastRole: 'viewer',
      access: 'read',
      impersonable: true,
      limit: 'api',
      params: { table: answers.tableParam },
      query: { ...answers.listQuery, ...answers.liveQuery },
      tokenInQuery: 'live',
      answers: { 200: answers.rows },
      handle: async (call) => {
        if (call.query['live'] === 'true') return live(call)
        if (call.query['as_of'] !== undefined) return past.list(call)
        if (call.query['aggregate'] !== undefined) {
          return at(call, async (target) => jsonText(200, await listAggregates(reader, call, target)))
        }
        // parseCursor refuses vector parameters with an error of its own.
        const near = call.query['cursor'] === undefined ? parseVectors(call) : undefined
        if (near) return at(call, async (target) => jsonText(200, await listNear(reader, call, target, near)))
        if (needsTrigrams(call.query)) await trigrams.ensureInstalled()
        return at(call, async (target) => jsonText(200, await listRows(reader, call, target)))
      },
    }),

    route('POST /api/collections/{table}', {
      summary: 'Create a row; with `onConflict`, or change the one that is there',
      auth: 'optional',
      leastRole: 'operator',
      access: 'write',
      impersonable: true,
      limit: 'api',
      dryRun: 'wrapped',
      once: 'caller',
      params: { table: answers.tableParam },
      query: answers.upsertQuery,
      accepts: t.row,
      answers: { 200: t.row, 201: t.row },
      handle: (call) => write(call, createRow),
    }),

    route('POST /api/collections/{table}/batch', {
      summary: 'Create, update and delete rows, all or none',
      auth: 'optional',
      leastRole: 'operator',
      access: 'write',
      impersonable: true,
      limit: 'api',
      dryRun: 'wrapped',
      once: 'caller',
      params: { table: answers.tableParam },
      accepts: answers.batch,
      answers: { 200: answers.batchResults },
      handle: (call) => write(call, writeBatch),
    }),

    route('GET /api/collections/{table}/{id}', {
      summary: 'Read a row',
      auth: 'optional',
      leastRole: 'viewer',
      access: 'read',
      impersonable: true,
      limit: 'api',
      params: answers.byKey,
      query: answers.rowQuery,
      answers: { 200: answers.rowOrPart },
      handle: async (call) =>
        at(call, async (target) => {
          if (call.query['as_of'] !== undefined) return past.read(call, target)
          const source = from ? from(call, target) : db
          const text = await source.fly(
            call.who,
            readStatement(sqlCache, call.query, keyFromPath(call, target), target),
            {
              kind: 'read',
              as: 'bytes',
            },
          )
          if (text === null) throw notFound('record not found', 'record_not_found')
          return jsonText(200, text)
        }),
    }),

    route('PATCH /api/collections/{table}/{id}', {
      summary: 'Change a row; what is left out stays',
      auth: 'optional',
      leastRole: 'operator',
      access: 'write',
      impersonable: true,
      limit: 'api',
      dryRun: 'wrapped',
      once: 'caller',
      params: answers.byKey,
      accepts: t.row,
      answers: { 200: t.row },
      handle: (call) => write(call, updateRow),
    }),

    route('DELETE /api/collections/{table}/{id}', {
      summary: 'Delete a row',
      auth: 'optional',
      leastRole: 'operator',
      access: 'write',
      impersonable: true,
      limit: 'api',
      dryRun: 'wrapped',
      once: 'caller',
      params: answers.byKey,
      answers: { 204: null },
      handle: (call) => write(call, deleteRow),
    }),
  ]
  return { routes }
}
