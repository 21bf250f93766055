import type pg from 'pg'
import type { PlannedPolicy, PlannedTable } from '../plan.ts'
import type { SourcePolicy, SourceTable } from './catalogue.ts'
import { countRows } from './rows.ts'

const titleOf = (schema: string, name: string): string => (schema === 'public' ? name : `${schema}.${name}`)

export async function plannedTables(from: pg.Client, tables: readonly SourceTable[]): Promise<PlannedTable[]> {
  const planned: PlannedTable[] = []
  for (const table of tables) {
    planned.push({
      name: titleOf(table.schema, table.name),
      rows: await countRows(from, table),
      from: `${table.schema}.${table.name}`,
      columns: table.columns.map(({ name, type }) => ({ name, type, from: `${table.schema}.${table.name}.${name}` })),
    })
  }
  return planned
}

export const plannedPolicy = ({ schema, table, name, command, using, check, roles }: SourcePolicy): PlannedPolicy => ({
  table: titleOf(schema, table),
  name,
  command,
  using,
  check,
  from: `policy ${name} of ${schema}.${table} for ${roles.join(', ')}`,
})
