import { AppError, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { parseKeepingDigits } from '../../core/json-digits.ts'
import type { Appender } from '../../db/changes/append.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { DryRun, LoggedChange } from '../../db/history/dry-run.ts'
import { isUniqueViolation } from '../../db/pg-errors.ts'
import { logOne, MADE } from '../../db/rows/change-logging.ts'
import type { TableView } from '../../db/rows/table-view.ts'
import { definitions, INPUT, insertAgain } from '../../db/rows/write.ts'
import { mayDo, tableByOid } from '../../db/schema/lookup.ts'
import type { Schema, Table } from '../../db/schema/snapshot.ts'
import { isAllowed, type Viewer } from '../../db/schema/viewer.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { Agent } from './agent.ts'
import type { Difference } from './difference.ts'
import { type OwnWrite, writeByAgent } from './sql.ts'
import type { ToolRequest } from './tool-call.ts'

type Image = Readonly<Record<string, unknown>>
type UndoneChange = { oid: number; action: string; old: string | null; new: string | null }

/** An inverse write: a call of a route, or a row that comes back; and what the row has to be for it. */
export type Inverse = { readonly expects: Image | null; readonly oid: number } & (
  | { readonly route: string; readonly request: ToolRequest }
  | { readonly table: Table; readonly image: Image }
)

const MOST = 1_000
/** One refusal for all reasons: it names nothing that the caller may not see. */
const cannot = (): AppError => new AppError('undo_conflict', 'this write cannot be undone with your rights')
const changed = (): AppError => new AppError('undo_conflict', 'what it wrote has changed since')

/** The writes that undo an agent's own write, newest first, to be made as its user. */
export async function inversesOf(
  db: Db,
  agent: Agent,
  requestId: string,
  schema: Schema,
  viewer: Viewer,
): Promise<Inverse[]> {
  const [own] = await db.rows<OwnWrite>(SYSTEM, writeByAgent(agent.id, requestId))
  if (!own) throw notFound('no such write of yours', 'changes_not_found')
  if (own.isFinal) throw cannot()
  const changes = await db.rows<UndoneChange>(
    SYSTEM,
    sql`select c.table_oid::int8::float8 as oid, c.action, c.old_now::text as old, c.new_now::text as new
      from svc.told_changes c where c.xid = ${own.xid}::xid8 order by c.id desc limit ${MOST + 1}::int`,
    { kind: 'slow', plain: true },
  )
  if (changes.length === 0) throw notFound('the changes are no longer kept', 'changes_not_found')
  if (changes.length > MOST) throw cannot()
  return changes.map((change) => inverseOf(change, schema, viewer))
}

function inverseOf({ oid, action, old, new: now }: UndoneChange, schema: Schema, viewer: Viewer): Inverse {
  const table = tableByOid(schema, oid)
  if (!table || !isAllowed(schema, table, viewer) || table.primaryKey.length === 0) throw cannot()
  const [before, after] = [imageOf(old), imageOf(now)]
  const name = `${table.schema}.${table.name}`
  switch (action) {
    case 'create':
      if (!after || !mayDo(table, viewer.role, 'delete')) throw cannot()
      return {
        route: ONE('DELETE'),
        request: { params: { table: name, id: keyIn(table, after) }, isWrite: true },
        expects: written(table, after),
        oid,
      }
    case 'delete':
      if (!before || !mayDo(table, viewer.role, 'insert')) throw cannot()
      return { table, image: written(table, before), expects: null, oid }
    case 'update': {
      if (!before || !after || !mayDo(table, viewer.role, 'update')) throw cannot()
      const names = Object.keys(before).filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
      const body = written(table, Object.fromEntries(names.map((key) => [key, before[key]])))
      if (Object.keys(body).some((key) => table.columns.get(key)?.isGenerated)) throw cannot()
      return {
        route: ONE('PATCH'),
        request: { params: { table: name, id: keyIn(table, after) }, body, isWrite: true },
        expects: written(table, after),
        oid,
      }
    }
    default:
      throw cannot()
  }
}

const ONE = (method: string): string => `${method} /api/collections/{table}/{id}`

const imageOf = (text: string | null): Image | null => (text === null ? null : (parseKeepingDigits(text) as Image))

/** As the path of a request has it. */
const keyIn = ({ primaryKey }: Table, image: Image): string => {
  const parts = primaryKey.map(({ name }) => String(image[name]))
  return parts.length === 1 ? (parts[0] ?? '') : parts.map(encodeURIComponent).join(',')
}

/** What can be written of an image. */
function written(table: Table, image: Image): Image {
  const entries = Object.entries(image).filter(([name]) => {
    const column = table.columns.get(name)
    return column !== undefined && !(column.isGenerated && !column.isIdentity)
  })
  if (entries.length === 0) throw cannot()
  return Object.fromEntries(entries)
}

/** The statement by which a deleted row comes back. */
export function comeBack(target: TableView, image: Image, log: Appender): Sql {
  const columns = [...target.table.columns.values()].filter(({ name }) => Object.hasOwn(image, name))
  const input = sql`pg_catalog.json_to_record(${JSON.stringify(image)}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`
  return sql`with ${MADE} as (${insertAgain(target, { columns, input })})
    select ${MADE}.svc_json::text, ${logOne(target, log, 'create')} from ${MADE}`
}

/** Makes the inverse writes in one transaction; each row has to be what the write made of it. */
export async function undoIn(
  tx: Tx,
  inverses: readonly Inverse[],
  write: (inverse: Inverse, tx: Tx) => Promise<unknown>,
): Promise<void> {
  for (const inverse of inverses) {
    await write(inverse, tx).catch((error: unknown) => {
      if (!(error instanceof AppError) || error.status >= 500) throw error
      // It is no longer there, or is there again.
      throw error.errorCode === 'record_not_found' || isUniqueViolation(error) ? changed() : cannot()
    })
  }
}

/** Whether the rows were what the undone write had made of them. A stamp that a trigger moves is none of it. */
export function requireUntouched(inverses: readonly Inverse[], run: DryRun, columns: Difference['columns']): void {
  const made = [...run.logged]
  for (const { oid, expects } of inverses) {
    if (expects === null) continue
    const isIt = (change: LoggedChange): boolean =>
      change.oid === oid && change.action !== 'create' && isImage(imageOf(change.old), expects, columns[oid] ?? {})
    const at = made.findIndex(isIt)
    if (at < 0) throw changed()
    made.splice(at, 1)
  }
}

const MOMENT = /^\d{4}-\d\d-\d\d/

function isImage(image: Image | null, expected: Image, kinds: Readonly<Record<string, string>>): boolean {
  if (image === null) return false
  return Object.entries(expected).every(([name, value]) => {
    const now = image[name]
    if (!(name in image) || JSON.stringify(now) === JSON.stringify(value)) return true
    if (kinds[name] === 'uuid') return true
    const isStamp = kinds[name] === 'time' || (kinds[name] === 'made' && MOMENT.test(String(now)))
    return isStamp && Date.parse(String(now)) >= Date.parse(String(value))
  })
}
