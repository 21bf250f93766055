import type { Table } from '../snapshot.ts'
import type { Catalog } from './catalogue.ts'
import { recursivePolicies } from './recursive-policies.ts'

/** Warnings about ways around row level security. */
export const warningsOf = (catalog: Catalog, tables: ReadonlyMap<string, Table>): string[] => [
  ...leakingViews(catalog, tables),
  ...failingPolicies(tables),
  ...recursivePolicies(catalog),
  ...ruledTables(tables),
  ...catalog.unguarded.map(
    ({ parent, children }) =>
      `${listed(children)} ${children.length === 1 ? 'is' : 'are'} not exposed: row level security of ${parent} guards only what is read through ${parent}; enable it on the partition or child too to expose it`,
  ),
]

const MAX_NAMES = 10
export const listed = (names: readonly string[]): string =>
  names.length <= MAX_NAMES
    ? names.join(', ')
    : `${names.slice(0, MAX_NAMES).join(', ')} and ${names.length - MAX_NAMES} more`

/** As pg_get_expr writes it. Inside nullif the cast follows another parenthesis, so it does not match. */
const BARE_CAST = /\(current_setting\('svc\.user_id'::text(, \w+)?\)\)::uuid/

/** The setting is '' for visitors, which is no uuid, so the policy raises an error instead of hiding rows. */
const failingPolicies = (tables: ReadonlyMap<string, Table>): string[] =>
  [...tables].flatMap(([key, { rlsPolicies }]) =>
    rlsPolicies
      .filter(({ usingExpr, withCheckExpr }) => BARE_CAST.test(`${usingExpr} ${withCheckExpr}`))
      .map(
        ({ name }) =>
          `policy ${name} of ${key} fails for every visitor, because '' is no uuid: write svc.uid() instead of current_setting('svc.user_id')::uuid`,
      ),
  )

/** PostgreSQL refuses RETURNING where a rule rewrites the statement. */
const ruledTables = (tables: ReadonlyMap<string, Table>): string[] =>
  [...tables].flatMap(([key, { hasRules }]) =>
    hasRules
      ? [`${key} has rules that return no rows, so the API does not write what they rewrite: use triggers instead`]
      : [],
  )

/** Views through which a request role sees rows that row level security would hide from it. */
function leakingViews(catalog: Catalog, tables: ReadonlyMap<string, Table>): string[] {
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
