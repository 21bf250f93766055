import type { TableView } from '../../../db/rows/table-view.ts'
import { mayDo } from '../../../db/schema/lookup.ts'
import type { Column, Privilege } from '../../../db/schema/snapshot.ts'
import { columnsFor } from '../../../db/schema/viewer.ts'

/** What a caller has now of the rights that a write and its answer need: privileges, and columns by name. */
export function rightsOn(
  { table, viewer: { role } }: TableView,
  privileges: readonly Privilege[],
  written: readonly Column[],
): string[] {
  const mayWrite = (column: Column, privilege: Privilege): boolean =>
    role === 'none' || (privilege !== 'delete' && column.privileges[role].has(privilege))
  return privileges
    .filter((privilege) => mayDo(table, role, privilege))
    .flatMap((privilege) => [
      privilege,
      ...written.filter((column) => mayWrite(column, privilege)).map(({ name }) => `${privilege} ${name}`),
    ])
    .concat(columnsFor(table, role).map(({ name }) => `select ${name}`))
}
