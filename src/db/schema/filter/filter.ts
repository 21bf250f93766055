import type { Ident, Sql } from '../../sql.ts'
import type { Table } from '../snapshot.ts'
import { buildFilter } from './build.ts'
import { parseFilter } from './parse.ts'
import { type FilterScope, planFilter } from './plan.ts'

/** Filter text as a boolean expression over the row called `alias`; undefined when the text is blank. */
export function compileFilter(text: string, table: Table, alias: Ident, scope: FilterScope): Sql | undefined {
  const filter = parseFilter(text)
  return filter && buildFilter(planFilter(filter, table, scope), table, alias)
}
