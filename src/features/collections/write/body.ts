import { badRequest } from '../../../core/errors.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { nearColumn } from '../../../db/schema/did-you-mean.ts'
import type { Column, Table } from '../../../db/schema/snapshot.ts'
import { invalidGeoJson, isGeoJson } from '../../../db/schema/spatial/geojson.ts'
import { isSpatial } from '../../../db/schema/spatial-conversion.ts'

export type BodyFields = Readonly<Record<string, unknown>>

/**
 * Finds the columns that a body names, in table order, so that the order of its keys makes no new statement. Most bodies
 * of a batch have the keys of the previous one, whose result is reused; more is not kept, because callers choose the keys.
 */
export function columnFinder(table: Table): (body: BodyFields) => readonly Column[] {
  const isPlain = ![...table.columns.values()].some(isSpatial)
  let lastNames: readonly string[] = []
  let last: readonly Column[] = []
  return (body) => {
    const names = Object.keys(body)
    if (!isSame(names, lastNames)) {
      last = names.flatMap((name) => table.columns.get(name) ?? []).sort((a, b) => a.position - b.position)
      lastNames = names
    }
    if (!isPlain) checkSpatial(body, last)
    return last
  }
}

function isSame(some: readonly string[], others: readonly string[]): boolean {
  if (some.length !== others.length) return false
  for (let i = 0; i < some.length; i++) if (some[i] !== others[i]) return false
  return true
}

function checkSpatial(body: BodyFields, columns: readonly Column[]): void {
  for (const column of columns) {
    if (isSpatial(column) && body[column.name] !== null && !isGeoJson(body[column.name])) throw invalidGeoJson()
  }
}

export const isFields = (value: unknown): value is BodyFields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The body of a create or update: an object with at least one column of the table. */
export function writtenColumns({ table, viewer }: TableView, body: unknown, bodyText: string): readonly Column[] {
  if (bodyText.trim() === '') throw badRequest('empty request body', 'invalid_body')
  if (!isFields(body)) throw badRequest('invalid JSON body', 'invalid_body')
  const columns = columnFinder(table)(body)
  if (columns.length === 0) {
    const [first = ''] = Object.keys(body)
    throw badRequest('no recognized columns in request body', 'unknown_column', nearColumn(table, first, viewer))
  }
  return columns
}
