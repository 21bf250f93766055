import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DatabaseSession } from '../../../core/identity.ts'
import type { Column, Policy, Table } from '../../../db/schema/snapshot.ts'
import { equalByPolicy } from './policy-equality.ts'

const session: DatabaseSession = {
  role: 'svc_authenticated',
  userId: '0b8e2f6e-0b8e-4f6e-8b8e-0b8e2f6e0b8e',
  email: '',
  aal: '',
  claims: '',
}
const column = (name: string, baseType: string): [string, Column] => [name, { name, baseType } as Column]
const columns = new Map([column('owner', 'uuid'), column('editor', 'uuid'), column('label', 'text')])
const policy = (usingExpr: string, more: Partial<Policy> = {}): Policy =>
  ({ usingExpr, command: 'SELECT', permissive: true, roles: [], ...more }) as Policy
const equal = (...rlsPolicies: Policy[]): string[] =>
  equalByPolicy({ rlsEnabled: true, rlsPolicies, columns } as unknown as Table, session)

test('a column is fixed only where every row that may be seen has the value of the caller', () => {
  assert.deepEqual(equal(policy('(owner = svc.uid())')), ['owner'])
  assert.deepEqual(equal(policy('(owner = ( SELECT svc.uid() AS uid))')), ['owner'])
  assert.deepEqual(equal(policy('(svc.uid() = owner)', { command: 'ALL' })), ['owner'])
  assert.deepEqual(equal(policy('((rank > 3) AND (owner = svc.uid()))')), ['owner'])
  assert.deepEqual(equal(policy('((rank > 3) AND ((owner = svc.uid()) AND (editor = svc.uid())))')), [
    'owner',
    'editor',
  ])
  // One alternative is no condition.
  assert.deepEqual(equal(policy('((owner = svc.uid()) OR (label IS NULL))')), [])
  assert.deepEqual(equal(policy('(NOT (owner = svc.uid()))')), [])
  assert.deepEqual(equal(policy('(owner = svc.uid())'), policy('true')), [])
  assert.deepEqual(equal(policy('(owner = svc.uid())'), policy('((owner = svc.uid()) AND (rank = 1))')), ['owner'])
  assert.deepEqual(equal(policy('(owner = svc.uid())', { command: 'INSERT' })), [])
  // Restrictive ones count beside any other, unless they are for one role.
  const restrictive = policy('(owner = svc.uid())', { permissive: false })
  assert.deepEqual(equal(policy('true'), restrictive), ['owner'])
  assert.deepEqual(equal(policy('true'), { ...restrictive, roles: ['svc_anon'] }), [])
  // Quotes, other types and the operator are not understood.
  assert.deepEqual(equal(policy(`((label = 'a AND (owner = svc.uid())') AND (owner = svc.uid()))`)), [])
  assert.deepEqual(equal(policy('(label = svc.uid())')), [])
  const table = { rlsEnabled: true, rlsPolicies: [policy('(owner = svc.uid())')], columns } as unknown as Table
  assert.deepEqual(equalByPolicy(table, { ...session, role: 'none' }), [])
  assert.deepEqual(equalByPolicy({ ...table, rlsEnabled: false }, session), [])
})
