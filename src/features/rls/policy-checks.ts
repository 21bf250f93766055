import { policyRule } from '../../db/schema/policy-rule.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { StoredPolicy } from './sql.ts'

export type PolicyCommand = 'select' | 'insert' | 'update' | 'delete'

/** One question that PostgreSQL asks a policy about the row as it is (`using`) or as it shall be (`check`). */
export type PolicyCheck = { readonly policy: StoredPolicy; readonly part: 'using' | 'check'; readonly expression: string }
/** Questions that are combined: one permissive policy must hold, and every restrictive one. */
export type CheckGroup = { readonly part: 'using' | 'check'; readonly checks: readonly PolicyCheck[] }

type Kind = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'

/**
 * What PostgreSQL asks for an operation as the API performs it (get_row_security_policies in rowsecurity.c): every
 * write is found by its key and returned, so that SELECT policies count too. A policy without an expression for the
 * question is not asked.
 */
export function checksFor(operation: PolicyCommand, policies: readonly StoredPolicy[]): CheckGroup[] {
  const group = (part: 'using' | 'check', kind: Kind): CheckGroup => ({
    part,
    checks: policies
      .filter(({ command }) => command === kind || command === 'ALL')
      .flatMap((policy) => {
        // A row that is written must stay visible: SELECT policies are asked by their USING, whatever their command.
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

/** The answer of a group as one boolean expression over the row; never null. */
export const groupExpression = ({ checks }: CheckGroup): Sql =>
  sql`coalesce(${policyRule(checks.map(({ policy, expression }) => ({ permissive: policy.permissive, expression })))}, false)`
