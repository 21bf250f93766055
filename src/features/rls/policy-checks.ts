import { policyRule } from '../../db/schema/policy-rule.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { StoredPolicy } from './sql.ts'

export type PolicyCommand = 'select' | 'insert' | 'update' | 'delete'

/** One question that PostgreSQL asks a policy about the row as it is (`using`) or as it shall be (`check`). */
export type Question = { readonly policy: StoredPolicy; readonly part: 'using' | 'check'; readonly expression: string }
/** Questions that are combined: one permissive policy must hold, and every restrictive one. */
export type Group = { readonly part: 'using' | 'check'; readonly questions: readonly Question[] }

type Kind = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'

/**
 * What PostgreSQL asks for an operation as the API performs it (get_row_security_policies in rowsecurity.c): every
 * write is found by its key and returned, so that SELECT policies count too. A policy without an expression for the
 * question is not asked.
 */
export function questionsFor(operation: PolicyCommand, policies: readonly StoredPolicy[]): Group[] {
  const group = (part: 'using' | 'check', kind: Kind): Group => ({
    part,
    questions: policies
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
export const groupExpression = ({ questions }: Group): Sql =>
  sql`coalesce(${policyRule(questions.map(({ policy, expression }) => ({ permissive: policy.permissive, expression })))}, false)`
