import { createHash } from 'node:crypto'
import * as t from '../../../core/json-type.ts'
import { KeyedMutex, Semaphore } from '../../../core/limits.ts'
import type { ChangeLog } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import type { DryRuns } from '../../../db/history/dry-run.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { SchemaCache } from '../../../db/schema/snapshot.ts'
import type { Trigrams } from '../../../db/search/trigrams.ts'
import { AddressShares } from '../../../http/address-shares.ts'
import { dryRunReply, isDryRun } from '../../../http/dry-run.ts'
import { type Identify, requireStillKnown } from '../../../http/guard.ts'
import { type Call, type Route, route } from '../../../http/route.ts'
import { addressSubject } from '../../../http/wire/client-address.ts'
import * as answers from '../answers.ts'
import { needsTrigrams } from '../list/stages/search/parse.ts'
import type { ListDeps } from '../list/stages/stage.ts'
import { onTable, requireWritable } from '../target/find-table.ts'
import { exportRows } from './export.ts'
import type { FileFormat } from './formats.ts'
import { importRows, requireImportable } from './import.ts'
import { IMPORTED_TYPES, readerOf } from './records.ts'
import { Spools } from './spool.ts'

export type BulkDeps = {
  db: Db
  schema: SchemaCache
  log: Pick<ChangeLog, 'appender' | 'wake'>
  dryRuns: DryRuns
  listDeps: ListDeps
  trigrams: Trigrams
  identify: Identify
  /** `api.export_max_rows`, `api.import_max_size` */
  maxRows: number
  maxBytes: number
}

/** Exports running at a time, in all and per address: each holds a connection. One more of the operator's. */
const AT_ONCE = { all: 4, share: 2, operator: 1 }
/** Imports in PostgreSQL at a time, one of an address. They wait for statements alone, so others wait for them. */
const IMPORTS_AT_ONCE = 2
const IMPORT_WAIT_MS = 60_000

export function createBulk(deps: BulkDeps): { routes: Route[] } {
  const { db, schema, log, dryRuns, listDeps, trigrams, maxRows, maxBytes } = deps
  const shares = new AddressShares({ ...AT_ONCE, client: 'reads' })
  const spools = new Spools(maxBytes)
  const [importers, importing] = [new KeyedMutex(), new Semaphore(IMPORTS_AT_ONCE)]
  const at = <T>(call: Call, work: (target: TableView) => Promise<T>): Promise<T> =>
    onTable(schema, call.params['table'] ?? '', call.who, work)

  const exporting = (format: FileFormat, content: string): Route =>
    route(`GET /api/collections/{table}/export.${format}`, {
      summary: `Export the rows of a list as ${format.toUpperCase()}, streamed`,
      auth: 'optional',
      leastRole: 'viewer',
      access: 'read',
      impersonable: true,
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
              const work = (signal: AbortSignal) =>
                new Promise<void>((onEnd) => {
                  signal.addEventListener('abort', () => call.raw.response.destroy(), { once: true })
                  exportRows({ db, listDeps, maxRows }, call, target, format, onEnd).then(resolve, reject)
                })
              shares.run(call, work).catch(reject)
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
      leastRole: 'operator',
      access: 'write',
      impersonable: true,
      limit: 'api',
      dryRun: 'wrapped',
      bodyKind: 'raw',
      once: 'caller',
      accepts: t.array(t.row),
      consumes: IMPORTED_TYPES,
      params: { table: answers.tableParam },
      query: answers.importQuery,
      answers: { 200: answers.imported },
      handle: async (call) => {
        const address = addressSubject(call.ip)
        const digest = call.once && createHash('sha256')
        const spool = await at(call, (target) => {
          requireWritable(target, 'insertable')
          requireImportable(call.query, target)
          const reader = readerOf(call.headers['content-type'] ?? '', target.table)
          return spools.receive(call.raw.request, address, reader, digest)
        })
        try {
          if (call.once && digest) call.once.body = digest.digest()
          await requireStillKnown(deps.identify, call)
          const signal = AbortSignal.any([call.signal, spool.evicted])
          const wait = { signal, timeoutMs: IMPORT_WAIT_MS }
          const dryRun = isDryRun(call) ? dryRuns.start(call.who, call.cancelSignal) : undefined
          const run = (target: TableView) => {
            requireWritable(target, 'insertable')
            const deps = { db, text: spool.text(), signal, dryRun }
            return importRows(deps, call, target, log.appender(call.who, call.requestId))
          }
          const attempt = () => importers.run(address, () => importing.run(() => at(call, run), wait), wait)
          const reply = await (call.once ? call.once.repeat(attempt) : attempt())
          log.wake()
          return dryRun ? dryRunReply(reply, dryRun.told) : reply
        } catch (error) {
          throw spool.evicted.aborted ? spool.evicted.reason : error
        } finally {
          await spool.close()
        }
      },
    }),
  ]
  return { routes }
}
