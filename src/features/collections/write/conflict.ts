import { badRequest } from '../../../core/errors.ts'
import { type Conflict, mergedColumns, uniqueKeyOf } from '../../../db/rows/upsert.ts'
import type { Column, Table } from '../../../db/schema/snapshot.ts'

const MAX_SHOWN = 200

/** Parses `onConflict` (the columns of a unique key) and `merge`. */
export function conflictOf(table: Table, onConflict: string, merge: unknown, written: readonly Column[]): Conflict {
  const names = onConflict.split(',').map((name) => name.trim())
  const on = uniqueKeyOf(table, names)
  if (!on) throw badRequest(`onConflict needs a unique constraint on (${names.join(', ').slice(0, MAX_SHOWN)})`)
  switch (merge) {
    case undefined:
    case true:
    case 'true':
      return { on, merged: mergedColumns(on, written) }
    case 'ignore':
      return { on, merged: [] }
    default:
      throw badRequest('merge must be true or ignore')
  }
}
