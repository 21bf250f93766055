import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Agent } from './agent.ts'
import { Confirmations, statementOf } from './confirm.ts'

const agent = { userId: 'u', clientId: 'c', grantId: 'g', apiKeyId: null, resource: 'r' } as Agent

test('a confirmation ends after five minutes', (t) => {
  t.mock.timers.enable({ apis: ['Date'] })
  const confirmations = new Confirmations(Buffer.alloc(32, 1))
  const statement = statementOf('create', { table: 'notes', body: { b: 1, a: 2 } })
  const token = confirmations.issue(agent, statement, 'difference', '0')
  t.mock.timers.tick(5 * 60_000)
  assert.equal(confirmations.check(agent, statement, token).generation, '0')
  t.mock.timers.tick(1)
  assert.throws(() => confirmations.check(agent, statement, token), /older than five minutes/)
})

test('the same arguments in another order are the same statement, and no others are', () => {
  const of = (body: unknown) => statementOf('create', { table: 'notes', body })
  assert.equal(of({ a: 1, b: [{ c: 1, d: 2 }] }), of({ b: [{ d: 2, c: 1 }], a: 1 }))
  const others = [
    { a: 1 },
    [['a', 1]],
    [{}, ['a', 1]],
    [[{}], ['a', 1]],
    { a: '1' },
    { a: [1] },
    {},
    [],
    [{}],
    [[{}]],
    null,
  ]
  assert.equal(new Set(others.map(of)).size, others.length)
})
