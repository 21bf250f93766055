import { AppError } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { type Ident, operatorSql, type Sql, sql } from '../../db/sql.ts'

/** PostgreSQL's reading of an expression over the rows of a table, kept until the transaction is rolled back. */
const readExpression = (table: Ident, expression: string): Sql =>
  sql`create temp view svc_policy as select (${operatorSql(expression)}) as fulfilled from ${table}`

/**
 * What keeps an operator from an expression: functions that may write, by name or behind an operator; and literals of a type
 * that may hold a domain, whose checks run when the literal is read. Base types, enums, and arrays and ranges of them hold none.
 */
const findings = sql`
  with tree as (
    select r.ev_action::text as text from pg_rewrite r where r.ev_class = 'pg_temp.svc_policy'::regclass::oid
  ), parts as (
    select p.found[1] as kind, p.found[2]::oid as oid from tree,
      regexp_matches(tree.text, ':(funcid|opfuncid|aggfnoid|winfnoid|opno|consttype) ([0-9]+)'::text, 'g'::text) as p(found)
  )
  select concat('the volatile function '::text, f.oid::regprocedure::text) as what
  from parts p join pg_proc f on f.oid = case when p.kind = 'opno'::text
    then (select o.oprcode::oid from pg_operator o where o.oid = p.oid) else p.oid end
  where p.kind <> 'consttype'::text and f.provolatile = 'v'::"char"
  union all
  select concat('a literal of the type '::text, t.oid::regtype::text) from parts p join pg_type t on t.oid = p.oid
  where p.kind = 'consttype'::text and not exists (
    select from pg_type inner_type where inner_type.typtype = any (array['b', 'e']::"char"[]) and inner_type.oid = case
      when t.typtype = 'r'::"char" then (select g.rngsubtype from pg_range g where g.rngtypid = t.oid)
      when t.typelem <> 0::oid then t.typelem else t.oid end)
  limit 1`

/**
 * Policies are made by the server, for the owner of the table. So that no code runs as the server's role, and callers run nothing
 * that an operator may not, the expression of an operator is read first under the operator's own login.
 */
export async function requireLesserPolicy(
  db: Db,
  operator: Identity,
  table: Ident,
  expressions: readonly (string | undefined)[],
): Promise<void> {
  for (const expression of expressions) {
    if (expression === undefined) continue
    let what: string | undefined
    const read = new AppError('internal', 'a policy was read, not made')
    await db
      .tx(operator, async (tx) => {
        await tx.run(readExpression(table, expression))
        what = (await tx.rows<{ what: string }>(findings))[0]?.what
        throw read
      })
      .catch((error: unknown) => {
        if (error !== read) throw error
      })
    if (what !== undefined) {
      throw new AppError('insufficient_role', `a policy with ${what} needs the role owner`)
    }
  }
}
