import { badRequest } from '../../../core/errors.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import type { Call } from '../../../http/route.ts'

/** The key in the path of a request. */
export const keyFromPath = ({ params, rawParams }: Call, { table }: TableView): string[] =>
  parseKey(table, params['id'] ?? '', rawParams['id'] ?? '')

/**
 * The texts of a primary key. A key of one column is the whole decoded text; of several, the raw text is split at its
 * commas and each part decoded, so that %2C can stand for a comma inside a value. Clients that encode the whole id
 * leave no comma to split at; theirs is split after decoding.
 */
export function parseKey(table: Table, decoded: string, raw: string): string[] {
  const { length } = table.primaryKey
  if (length === 0) throw badRequest('table has no primary key', 'no_primary_key')
  if (length === 1) return [decoded]
  const parts = raw.includes(',') ? raw.split(',').map(decode) : decoded.split(',')
  if (parts.length !== length) throw badRequest(`invalid primary key: expected ${length} values`, 'invalid_key')
  return parts
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw badRequest('invalid primary key: malformed percent-encoding', 'invalid_key')
  }
}
