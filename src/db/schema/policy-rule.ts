import { catalogueExpression, EMPTY, join, OR, type Sql, sql } from '../sql.ts'

/**
 * PostgreSQL's own rule over one row: one permissive policy must hold, and every restrictive one; none at all means no.
 * Where policies answer null, so may the rule, which means no too.
 */
export function policyRule(policies: readonly { permissive: boolean; expression: string }[]): Sql {
  const of = (permissive: boolean): Sql[] =>
    policies
      .filter((policy) => policy.permissive === permissive)
      .map(({ expression }) => sql`(${catalogueExpression(expression)})`)
  const permissive = of(true)
  if (permissive.length === 0) return sql`false`
  const restrictive = of(false).map((expression) => sql` and ${expression}`)
  return sql`(${join(permissive, OR)})${join(restrictive, EMPTY)}`
}
