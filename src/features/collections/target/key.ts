import { badRequest } from '../../../core/errors.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import type { Call } from '../../../http/route.ts'

/** The key in the path of a request. */
export const keyFromPath = ({ params, rawParams }: Call, { table }: TableView): string[] =>
  parseKey(table, params['id'] ?? '', rawParams['id'] ?? '')

/**
 * The texts of a primary key. A key of one column is the whole decoded text. A composite key is split at the commas of
 * the raw text before decoding, so that %2C stands for a comma inside a value. If the client encoded the commas too, the
 * decoded text is split.
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
