import type { Table } from '../snapshot.ts'
import type { Catalog } from './catalogue.ts'

/** Sentences about views through which a request role sees rows that row level security would hide from it. */
export function warningsOf(catalog: Catalog, tables: ReadonlyMap<string, Table>): string[] {
  const byOid = new Map([...tables].map(([key, table]) => [table.oid, { key, table }]))
  return catalog.leaks.flatMap(({ view, tables: guarded }) => {
    const found = byOid.get(view)
    if (found === undefined || !isReachable(found.table)) return []
    const what = `${guarded.length === 1 ? 'table' : 'tables'} ${guarded.join(', ')}`
    if (found.table.kind === 'materialized_view') {
      return `materialized view ${found.key} copies rows of ${what} past row level security: whoever may read it sees all of them`
    }
    const remedy =
      catalog.serverVersion < 150000
        ? 'PostgreSQL 14 has no security_invoker, so revoke access to the view or upgrade'
        : 'set security_invoker = true on it'
    return `view ${found.key} reads ${what} past row level security, with the rights of its owner: ${remedy}`
  })
}

const isReachable = ({ privileges }: Table): boolean =>
  privileges.svc_anon.has('select') || privileges.svc_authenticated.has('select')
