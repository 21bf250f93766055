import { AppError, notFound } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import type { Cursors } from '../../db/rows/cursors.ts'
import { KnownStatements } from '../../db/rows/known-statements.ts'
import type { Place } from '../../db/rows/place.ts'
import type { Column, SchemaCache } from '../../db/schema/snapshot.ts'
import type { Trigrams } from '../../db/search/trigrams.ts'
import type { Sql } from '../../db/sql.ts'
import { type Call, jsonText, noContent, type Reply, type Route, route } from '../../http/route.ts'
import * as answers from './answers.ts'
import { runBatch } from './batch/batch.ts'
import { parseBatch } from './batch/parse.ts'
import { parseKey } from './key.ts'
import { listAggregates, listRows, readStatement } from './list/list.ts'
import { needsTrigrams } from './list/stages/search/parse.ts'
import type { ListMeans } from './list/stages/stage.ts'
import { listNear } from './list/vectors/list-near.ts'
import { parseVectors } from './list/vectors/parse.ts'
import type { Embed } from './list/vectors/vectors.ts'
import { atTable, requireWritable } from './place.ts'
import { writtenColumns } from './write/body.ts'
import { conflictOf } from './write/conflict.ts'
import { explainWrite } from './write/errors.ts'
import { explainUpsert, upserted, upsertStatements } from './write/upsert.ts'
import { createStatement, deleteStatement, updateStatement } from './write/write.ts'

export type CollectionsDeps = {
  db: Db
  schema: SchemaCache
  /** Writes are logged, and its reader woken when they are committed. */
  log: Pick<ChangeLog, 'appender' | 'wake'>
  means: ListMeans
  trigrams: Trigrams
  /** Undefined: no provider is configured. */
  embed: Embed | undefined
  /** The same in all processes. */
  cursors: Cursors
}

export function createCollections({ db, schema, log, means, trigrams, embed, cursors }: CollectionsDeps): {
  routes: Route[]
} {
  const at = <T>(call: Call, work: (place: Place) => Promise<T>): Promise<T> =>
    atTable(schema, call.params['table'] ?? '', call.who, work)

  const known = new KnownStatements()
  const reader = { db, known, means, cursors, embed }

  const keyOf = (call: Call, place: Place): string[] =>
    parseKey(place.table, call.params['id'] ?? '', call.rawParams['id'] ?? '')

  const writeAll = async (
    call: Call,
    { table }: Place,
    statements: readonly [Sql, ...Sql[]],
    columns: readonly Column[] = [],
    key?: readonly string[],
  ): Promise<(string | null)[]> => {
    const row = key && [table.ident.quoted, ...key].join('\0')
    const options = { signal: call.cancelSignal, plain: !table.runsUserCode, row }
    const answers = await db.fly(call.who, statements, options).catch((error: unknown) => {
      throw error instanceof AppError ? explainWrite(error, columns) : error
    })
    log.wake()
    return answers
  }

  const write = async (
    call: Call,
    place: Place,
    statement: Sql,
    columns?: readonly Column[],
    key?: readonly string[],
  ): Promise<string | null> => (await writeAll(call, place, [statement], columns, key))[0] ?? null

  const upsert = async (call: Call, place: Place, columns: readonly Column[]): Promise<Reply> => {
    const { onConflict = '', merge } = call.query
    const conflict = conflictOf(place.table, onConflict, merge, columns)
    const written = { columns, bodies: [call.bodyText], conflict, log: log.appender(call.who) }
    const statements = upsertStatements(known, place, written)
    const texts = await writeAll(call, place, statements, columns).catch((error: unknown) => {
      throw error instanceof AppError ? explainUpsert(error) : error
    })
    const { status, text } = upserted(texts)
    return jsonText(status, text)
  }

  const routes = [
    route('GET /api/collections/{table}', {
      summary: 'List rows',
      auth: 'optional',
      access: 'read',
      limit: 'api',
      params: { table: answers.table },
      query: answers.listQuery,
      answers: { 200: answers.rows },
      handle: async (call) => {
        if (call.query['aggregate'] !== undefined) {
          return at(call, async (place) => jsonText(200, await listAggregates(reader, call, place)))
        }
        // A cursor with a vector mode is refused, and says so.
        const near = call.query['cursor'] === undefined ? parseVectors(call.query) : undefined
        if (near) return at(call, async (place) => jsonText(200, await listNear(reader, call, place, near)))
        if (needsTrigrams(call.query)) await trigrams.need()
        return at(call, async (place) => jsonText(200, await listRows(reader, call, place)))
      },
    }),

    route('POST /api/collections/{table}', {
      summary: 'Create a row; with `onConflict`, or change the one that is there',
      auth: 'optional',
      access: 'write',
      limit: 'api',
      params: { table: answers.table },
      query: answers.upsertQuery,
      accepts: t.row,
      answers: { 200: t.row, 201: t.row },
      handle: async (call) =>
        at(call, async (place) => {
          requireWritable(place, 'insertable')
          const columns = writtenColumns(place.table, call.body, call.bodyText)
          if (call.query['onConflict'] !== undefined) return upsert(call, place, columns)
          const written = { columns, body: call.bodyText, log: log.appender(call.who) }
          const text = await write(call, place, createStatement(known, place, written), columns)
          // A trigger of the table swallowed the row.
          if (text === null) throw new AppError('insufficient_privilege', 'insufficient permissions')
          return jsonText(201, text)
        }),
    }),

    route('POST /api/collections/{table}/batch', {
      summary: 'Create, update and delete rows, all or none',
      auth: 'optional',
      access: 'write',
      limit: 'api',
      params: { table: answers.table },
      accepts: answers.batch,
      answers: { 200: answers.batchResults },
      handle: async (call) =>
        at(call, async (place) => {
          requireWritable(place, 'insertable')
          const operations = parseBatch(place.table, call.body, call.bodyText)
          const batch = { known, place, who: call.who, log: log.appender(call.who), signal: call.cancelSignal }
          const text = await runBatch(db, batch, operations)
          log.wake()
          return jsonText(200, text)
        }),
    }),

    route('GET /api/collections/{table}/{id}', {
      summary: 'Read a row',
      auth: 'optional',
      access: 'read',
      limit: 'api',
      params: answers.byKey,
      query: answers.rowQuery,
      answers: { 200: t.row },
      handle: async (call) =>
        at(call, async (place) => {
          const text = await db.fly(call.who, readStatement(known, call.query, keyOf(call, place), place), {
            kind: 'read',
            as: 'bytes',
          })
          if (text === null) throw notFound('record not found', 'record_not_found')
          return jsonText(200, text)
        }),
    }),

    route('PATCH /api/collections/{table}/{id}', {
      summary: 'Change a row; what is left out stays',
      auth: 'optional',
      access: 'write',
      limit: 'api',
      params: answers.byKey,
      accepts: t.row,
      answers: { 200: t.row },
      handle: async (call) =>
        at(call, async (place) => {
          requireWritable(place, 'updatable')
          const key = keyOf(call, place)
          const columns = writtenColumns(place.table, call.body, call.bodyText)
          const written = { columns, body: call.bodyText, log: log.appender(call.who) }
          const statement = updateStatement(known, place, key, written)
          const text = await write(call, place, statement, columns, key)
          if (text === null) throw notFound('record not found', 'record_not_found')
          return jsonText(200, text)
        }),
    }),

    route('DELETE /api/collections/{table}/{id}', {
      summary: 'Delete a row',
      auth: 'optional',
      access: 'write',
      limit: 'api',
      params: answers.byKey,
      answers: { 204: null },
      handle: async (call) =>
        at(call, async (place) => {
          requireWritable(place, 'updatable')
          const key = keyOf(call, place)
          const statement = deleteStatement(known, place, key, log.appender(call.who))
          if ((await write(call, place, statement, [], key)) === null)
            throw notFound('record not found', 'record_not_found')
          return noContent
        }),
    }),
  ]
  return { routes }
}
