import type { Observe } from '../../../core/observe.ts'
import type { Schema, SchemaCache } from '../snapshot.ts'
import { listed } from './warnings.ts'

const WRITES = ['insert', 'update', 'delete'] as const

/** Tables that anonymous callers may write, because they have no row level security: `schema.table`. */
export const openTables = (schema: Schema): string[] =>
  [...schema.tables]
    .filter(([, { kind }]) => kind === 'table' || kind === 'partitioned_table' || kind === 'foreign_table')
    .filter(([, { rlsEnabled, privileges }]) => !rlsEnabled && WRITES.some((write) => privileges.svc_anon.has(write)))
    .map(([key]) => key)

/** For the operator; undefined when there is no open table. */
export function openTablesWarning(schema: Schema): string | undefined {
  const names = openTables(schema)
  if (names.length === 0) return undefined
  return `anybody may write to ${listed(names)}: no row level security; enable it, or set api.anonymous to read or none`
}

const NAMED = 3

/** One line for all open tables that were not seen before: their count, and the first of them. */
export function reportOpenTables(cache: SchemaCache, observe: Observe): void {
  const reported = new Set<string>()
  const report = (schema: Schema): void => {
    const found = openTables(schema).filter((table) => !reported.has(table))
    if (found.length === 0) return
    for (const table of found) reported.add(table)
    observe({
      message: 'anybody may write to tables without row level security',
      attrs: { count: found.length, tables: found.slice(0, NAMED).join(', ') },
    })
  }
  report(cache.read())
  cache.onChange(report)
}
