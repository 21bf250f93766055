import { badRequest } from '../../core/errors.ts'
import type { Column, Table } from '../../db/schema.ts'
import { isGeoJson } from './geojson.ts'

export type Fields = Readonly<Record<string, unknown>>

/** A body of column values: which columns it has, in table order, so that the order of keys makes no new statement. */
export function presentColumns(table: Table, body: Fields): Column[] {
  const present: Column[] = []
  for (const [name, value] of Object.entries(body)) {
    const column = table.columns.get(name)
    if (!column) continue
    if ((column.isGeometry || column.isGeography) && value !== null && !isGeoJson(value)) throw invalidGeoJson()
    present.push(column)
  }
  return present.sort((a, b) => a.position - b.position)
}

export const invalidGeoJson = () => badRequest('invalid GeoJSON geometry')

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The body of a create or update: an object with at least one column of the table. */
export function writtenColumns(table: Table, body: unknown, bodyText: string): Column[] {
  if (bodyText.trim() === '') throw badRequest('empty request body')
  if (!isFields(body)) throw badRequest('invalid JSON body')
  const columns = presentColumns(table, body)
  if (columns.length === 0) throw badRequest('no recognized columns in request body')
  return columns
}
