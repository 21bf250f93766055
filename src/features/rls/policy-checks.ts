import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { policyRule } from '../../db/schema/policy-rule.ts'
import type { Table } from '../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { policiesFor, type RowSecurity, type StoredPolicy } from './sql.ts'

export type PolicyCommand = 'select' | 'insert' | 'update' | 'delete'

/** One policy expression that PostgreSQL evaluates on the current row (`using`) or the new row (`check`). */
export type PolicyCheck = {
  readonly policy: StoredPolicy
  readonly part: 'using' | 'check'
  readonly expression: string
}
/** Checks that are combined: one permissive policy and every restrictive one must hold. */
export type CheckGroup = { readonly part: 'using' | 'check'; readonly checks: readonly PolicyCheck[] }

type Kind = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'

/** Row security as it is now: with views in their expressions the deparser locks tables, so it gives way to migrations. */
export async function rowSecurityFor(db: Db, table: Table, role: string): Promise<RowSecurity> {
  return JSON.parse((await db.fly(SYSTEM, policiesFor(table, role), { givesWay: true })) ?? '{}')
}

/**
 * The checks of an operation as the API performs it (get_row_security_policies in rowsecurity.c). Every write finds its row
 * by key and returns it, so that SELECT policies apply too. Policies without an expression for the part are left out.
 */
export function checksFor(operation: PolicyCommand, policies: readonly StoredPolicy[]): CheckGroup[] {
  const group = (part: 'using' | 'check', kind: Kind): CheckGroup => ({
    part,
    checks: policies
      .filter(({ command }) => command === kind || command === 'ALL')
      .flatMap((policy) => {
        // The new row must stay visible, so SELECT policies apply with their USING expression.
        const expression = part === 'check' && kind !== 'SELECT' ? (policy.check ?? policy.using) : policy.using
        return expression === null ? [] : [{ policy, part, expression }]
      }),
  })
  switch (operation) {
    case 'select':
      return [group('using', 'SELECT')]
    case 'insert':
      return [group('check', 'INSERT'), group('check', 'SELECT')]
    case 'update':
      return [group('using', 'UPDATE'), group('using', 'SELECT'), group('check', 'UPDATE'), group('check', 'SELECT')]
    case 'delete':
      return [group('using', 'DELETE'), group('using', 'SELECT')]
  }
}

/** The result of a group as one boolean expression over the row; never null. */
export const groupExpression = ({ checks }: CheckGroup): Sql =>
  sql`coalesce(${policyRule(checks.map(({ policy, expression }) => ({ permissive: policy.permissive, expression })))}, false)`
