import * as t from '../../../core/json-type.ts'
import type { DryRuns } from '../../../db/history/dry-run.ts'
import type { ChangeLog } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { SchemaCache } from '../../../db/schema/snapshot.ts'
import type { Trigrams } from '../../../db/search/trigrams.ts'
import { AddressShares } from '../../../http/address-shares.ts'
import { dryRunReply, isDryRun } from '../../../http/dry-run.ts'
import { type Call, json, type Route, route } from '../../../http/route.ts'
import * as answers from '../answers.ts'
import { needsTrigrams } from '../list/stages/search/parse.ts'
import type { ListDeps } from '../list/stages/stage.ts'
import { onTable, requireWritable } from '../target/find-table.ts'
import { exportRows } from './export.ts'
import type { FileFormat } from './formats.ts'
import { importRows } from './import.ts'
import { IMPORTED_TYPES } from './records.ts'

export type BulkDeps = {
  db: Db
  schema: SchemaCache
  log: Pick<ChangeLog, 'appender' | 'wake'>
  dryRuns: DryRuns
  listDeps: ListDeps
  trigrams: Trigrams
  /** `api.export_max_rows`, `api.import_max_size` */
  maxRows: number
  maxBytes: number
}

/** Exports and imports running at a time, in all and per address: each holds a connection. */
const AT_ONCE = { all: 4, share: 2 }

export function createBulk(deps: BulkDeps): { routes: Route[] } {
  const { db, schema, log, dryRuns, listDeps, trigrams, maxRows, maxBytes } = deps
  const shares = new AddressShares(AT_ONCE)
  const at = <T>(call: Call, work: (target: TableView) => Promise<T>): Promise<T> =>
    onTable(schema, call.params['table'] ?? '', call.who, work)

  const exporting = (format: FileFormat, content: string): Route =>
    route(`GET /api/collections/{table}/export.${format}`, {
      summary: `Export the rows of a list as ${format.toUpperCase()}, streamed`,
      auth: 'optional',
      access: 'read',
      limit: 'api',
      params: { table: answers.tableParam },
      query: answers.exportQuery,
      answers: { 200: { content } },
      handle: async (call) => {
        if (needsTrigrams(call.query)) await trigrams.ensureInstalled()
        return at(
          call,
          (target) =>
            new Promise((resolve, reject) => {
              const work = () =>
                new Promise<void>((onEnd) => {
                  exportRows({ db, listDeps, maxRows }, call, target, format, onEnd).then(resolve, reject)
                })
              shares.run(call.ip, work).catch(reject)
            }),
        )
      },
    })

  const routes = [
    exporting('csv', 'text/csv'),
    exporting('json', 'application/json'),
    exporting('ndjson', 'application/x-ndjson'),

    route('POST /api/collections/{table}/import', {
      summary: 'Import rows of CSV, JSON or NDJSON, all or none',
      auth: 'optional',
      access: 'write',
      limit: 'api',
      dryRun: 'wrapped',
      bodyKind: 'raw',
      accepts: t.array(t.row),
      consumes: IMPORTED_TYPES,
      params: { table: answers.tableParam },
      query: answers.importQuery,
      answers: { 200: answers.imported },
      handle: (call) =>
        at(call, async (target) => {
          requireWritable(target, 'insertable')
          const dryRun = isDryRun(call) ? dryRuns.start(call.who, call.cancelSignal) : undefined
          const counts = await shares.run(call.ip, () =>
            importRows({ db, maxBytes, dryRun }, call, target, log.appender(call.who, call.requestId)),
          )
          log.wake()
          const reply = json(200, counts)
          return dryRun ? dryRunReply(reply, dryRun.told) : reply
        }),
    }),
  ]
  return { routes }
}
