import { badRequest } from '../../core/errors.ts'
import type { Table } from '../../db/schema/snapshot.ts'

/** The texts of a primary key in a path; parts of a composite one are separated by commas, as in collections. */
export function keyInPath({ primaryKey }: Table, decoded: string, raw: string): string[] {
  const { length } = primaryKey
  if (length === 0) throw badRequest('table has no primary key', 'no_primary_key')
  if (length === 1) return [decoded]
  const parts = raw.includes(',')
    ? raw.split(',').map(decoded === raw ? String : decodeURIComponent)
    : decoded.split(',')
  if (parts.length !== length) throw badRequest(`invalid primary key: expected ${length} values`, 'invalid_key')
  return parts
}
