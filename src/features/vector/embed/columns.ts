import { badRequest } from '../../../core/errors.ts'
import type { Column, Table } from '../../../db/schema/snapshot.ts'
import { holdsVectors, notAVector } from '../../../db/search/vectors.ts'

export function textColumnOf(table: Table, name: string): Column {
  const column = table.columns.get(name)
  if (!column?.isText) throw badRequest(`column "${name}" is not a text column`)
  return column
}

export function vectorColumnOf(table: Table, name: string): Column {
  const column = table.columns.get(name)
  if (!column || !holdsVectors(column)) throw badRequest(notAVector(name))
  return column
}
