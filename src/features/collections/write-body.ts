import { badRequest } from '../../core/errors.ts'
import type { Column, Table } from '../../db/schema.ts'
import { isGeoJson } from './geojson.ts'

export type Fields = Readonly<Record<string, unknown>>

/**
 * Tells which columns of the table a body has, in table order, so that the order of keys makes no new statement.
 * Bodies with the same keys share one answer.
 */
export function columnFinder(table: Table): (body: Fields) => readonly Column[] {
  const known = new Map<string, readonly Column[]>()
  const find = (names: readonly string[]): readonly Column[] =>
    names.flatMap((name) => table.columns.get(name) ?? []).sort((a, b) => a.position - b.position)
  return (body) => {
    const names = Object.keys(body)
    const signature = names.join('\0')
    const columns = known.get(signature) ?? find(names)
    known.set(signature, columns)
    for (const column of columns) {
      if (isSpatial(column) && body[column.name] !== null && !isGeoJson(body[column.name])) throw invalidGeoJson()
    }
    return columns
  }
}

export const isSpatial = (column: Column): boolean => column.isGeometry || column.isGeography

export const invalidGeoJson = () => badRequest('invalid GeoJSON geometry')

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The body of a create or update: an object with at least one column of the table. */
export function writtenColumns(table: Table, body: unknown, bodyText: string): readonly Column[] {
  if (bodyText.trim() === '') throw badRequest('empty request body')
  if (!isFields(body)) throw badRequest('invalid JSON body')
  const columns = columnFinder(table)(body)
  if (columns.length === 0) throw badRequest('no recognized columns in request body')
  return columns
}
