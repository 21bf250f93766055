import { catalogueExpression, EMPTY, join, OR, type Sql, sql } from '../sql.ts'

/**
 * PostgreSQL's rule for one row: at least one permissive policy and every restrictive one must hold; without a permissive
 * policy it is false. Policies may be null, and then the rule is null, which counts as false.
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
