import type { DatabaseRole } from '../../core/identity.ts'
import { mayDo } from '../../db/schema/lookup.ts'
import type { Table } from '../../db/schema/snapshot.ts'
import type { PolicyCommand } from './policy-checks.ts'

/** Columns that the role cannot read. */
export const hiddenColumns = (table: Table, role: DatabaseRole): string[] =>
  role === 'none'
    ? []
    : [...table.columns.values()].filter(({ privileges }) => !privileges[role].has('select')).map(({ name }) => name)

/** Privileges that the role lacks for the operation. Writes name their columns, and every response shows the row. */
export function missingGrants(
  table: Table,
  role: DatabaseRole,
  operation: PolicyCommand,
  written: readonly string[],
): string[] {
  if (role === 'none') return []
  const on = ` on ${table.schema}.${table.name}`
  const lacks = (privilege: PolicyCommand): string[] =>
    mayDo(table, role, privilege) ? [] : [`${privilege.toUpperCase()}${on}`]
  if (operation === 'select') return lacks('select')
  const whole = lacks(operation)
  const isRefused = (name: string): boolean =>
    operation !== 'delete' && table.columns.get(name)?.privileges[role].has(operation) === false
  const single = whole.length > 0 ? [] : written.filter(isRefused)
  return [...whole, ...single.map((name) => `${operation.toUpperCase()} (${name})${on}`), ...lacks('select')]
}
