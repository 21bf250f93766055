import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DatabaseSession } from '../../../core/identity.ts'
import type { Policy, Table } from '../../../db/schema/snapshot.ts'
import { type Condition, conditionsByPolicy } from './policy-equality.ts'

const session: DatabaseSession = { role: 'svc_authenticated', userId: '', email: '', aal: '', claims: '' }
const policy = (usingExpr: string, more: Partial<Policy> = {}): Policy =>
  ({ usingExpr, command: 'SELECT', permissive: true, roles: [], ...more }) as Policy
const conditions = (...rlsPolicies: Policy[]) =>
  conditionsByPolicy({ name: 'notes', rlsEnabled: true, rlsPolicies } as unknown as Table, session)
const own = (column: string): Condition => ({ column, query: undefined })

test('rows are known by the id of the caller only where each that may be seen has it', () => {
  const owned = [own('owner')]
  assert.deepEqual(conditions(policy('(owner = svc.uid())')), owned)
  assert.deepEqual(conditions(policy('(owner = ( SELECT svc.uid() AS uid))')), owned)
  assert.deepEqual(conditions(policy('(svc.uid() = owner)', { command: 'ALL' })), owned)
  assert.deepEqual(conditions(policy('((rank > 3) AND (owner = svc.uid()))')), owned)
  assert.deepEqual(conditions(policy('((rank > 3) AND ((editor = svc.uid()) AND (owner = svc.uid())))')), [
    own('editor'),
  ])
  // Of alternatives each has to be known.
  assert.deepEqual(conditions(policy('((owner = svc.uid()) OR (label IS NULL))')), undefined)
  assert.deepEqual(conditions(policy('((owner = svc.uid()) OR (editor = svc.uid()))')), [own('owner'), own('editor')])
  assert.deepEqual(conditions(policy('(NOT (owner = svc.uid()))')), undefined)
  assert.deepEqual(conditions(policy('(owner = svc.uid())'), policy('true')), undefined)
  assert.deepEqual(conditions(policy('(owner = svc.uid())'), policy('((editor = svc.uid()) AND (rank = 1))')), [
    own('owner'),
    own('editor'),
  ])
  assert.deepEqual(conditions(policy('(owner = svc.uid())', { command: 'INSERT' })), undefined)
  // Restrictive ones count beside any other, unless they are for one role.
  const restrictive = policy('(owner = svc.uid())', { permissive: false })
  assert.deepEqual(conditions(policy('true'), restrictive), owned)
  assert.deepEqual(conditions(policy('true'), { ...restrictive, roles: ['svc_anon'] }), undefined)
  // What stands in quotes divides nothing.
  assert.deepEqual(conditions(policy(`((label = 'a) OR (b') AND (owner = svc.uid()))`)), owned)
  assert.deepEqual(conditions(policy(`((label = 'a AND (owner = svc.uid())') OR (rank = 1))`)), undefined)
  const table = { name: 'notes', rlsEnabled: true, rlsPolicies: [policy('(owner = svc.uid())')] } as unknown as Table
  assert.deepEqual(conditionsByPolicy(table, { ...session, role: 'none' }), undefined)
  assert.deepEqual(conditionsByPolicy({ ...table, rlsEnabled: false }, session), undefined)
})

test('and by what a query of the policy answers, unless more than one column of the row is in it', () => {
  const members = ' SELECT m.team\n   FROM members m\n  WHERE (m.person = svc.uid())'
  assert.deepEqual(conditions(policy(`(team IN (${members}))`)), [{ column: 'team', query: members }])
  assert.deepEqual(conditions(policy(`(team = ANY (ARRAY(${members})))`)), [{ column: 'team', query: members }])
  assert.deepEqual(conditions(policy(`((owner = svc.uid()) OR (team IN (${members})))`)), [
    own('owner'),
    { column: 'team', query: members },
  ])
  assert.deepEqual(conditions(policy(`((team IN (${members})) AND (owner = svc.uid()))`)), [own('owner')])
  assert.deepEqual(conditions(policy(`(NOT (team IN (${members})))`)), undefined)
  assert.deepEqual(conditions(policy(`((team IN (${members})) = (rank IN (${members})))`)), undefined)
  const ofOrganizations = [{ column: 'org', query: 'select pg_catalog.unnest(svc.org_ids())' }]
  assert.deepEqual(conditions(policy('(org = ANY (svc.org_ids()))')), ofOrganizations)
  assert.deepEqual(conditions(policy('(org = ANY (( SELECT svc.org_ids() AS org_ids)::uuid[]))')), ofOrganizations)
  const exists = (columns: string, where: string) =>
    conditions(policy(`(EXISTS ( SELECT ${columns}\n   FROM members m\n  WHERE ${where}))`))
  assert.deepEqual(exists('1', '((m.team = notes.team) AND (m.person = svc.uid()))'), [
    { column: 'team', query: 'select m.team from members m where (m.person = svc.uid()) and true' },
  ])
  assert.deepEqual(exists('m.team,\n    m.person', '(notes.team = m.team)'), [
    { column: 'team', query: 'select m.team from members m where true' },
  ])
  // An aggregate answers a row in any case, and one of two is no condition.
  assert.deepEqual(exists('count(*) AS count', '(m.team = notes.team)'), undefined)
  assert.deepEqual(exists('1', '((m.team = notes.team) OR (m.person = svc.uid()))'), undefined)
  assert.deepEqual(exists('1', '(m.team = notes.team)\n  GROUP BY m.team\n HAVING (1 = 1)'), undefined)
})
