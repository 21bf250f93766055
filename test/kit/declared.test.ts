import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as t from '../../src/core/json-type.ts'
import { json, route } from '../../src/http/route.ts'
import { checkAgainst } from './declared.ts'

const check = checkAgainst([
  route('GET /things/{id}', {
    summary: 'A thing',
    auth: 'none',
    answers: { 200: t.object({ name: t.string(), seen: t.nullable(t.time()) }), 204: null },
    handle: () => json(200, {}),
  }),
  route('GET /open', {
    summary: 'More',
    auth: 'none',
    answers: { 200: t.open(t.object({})) },
    handle: () => json(200, {}),
  }),
])

const answer = (status: number, body: unknown) => ({
  status,
  text: body === undefined ? '' : JSON.stringify(body),
  headers: new Headers(body === undefined ? {} : { 'content-type': 'application/json' }),
})

test('what a route declares passes, and failures in the common form', () => {
  check('GET', '/things/1?x=y', answer(200, { name: 'a', seen: null }))
  check('GET', '/things/1', answer(204, undefined))
  check('GET', '/things/1', answer(404, { code: 404, error: 'not_found', message: 'thing not found' }))
  check('GET', '/unknown', answer(404, { code: 404, error: 'not_found', message: 'not found' }))
  check('GET', '/open', answer(200, { anything: 1 }))
})

test('everything else fails the test that got it', () => {
  const refused: [string, number, unknown, RegExp][] = [
    ['/things/1', 200, { name: 'a', seen: 'yesterday' }, /\/seen must match format "date-time"/],
    ['/things/1', 200, { name: 'a', seen: null, more: 1 }, /additional properties {"additionalProperty":"more"}/],
    ['/things/1', 200, { seen: null }, /required property 'name'/],
    ['/things/1', 201, { name: 'a', seen: null }, /GET \/things\/{id} does not declare: the status 201/],
    ['/things/1', 404, { error: 'thing not found' }, /required property 'code'/],
    ['/things/1', 404, { code: 404, error: 'thing_lost', message: 'x' }, /the error thing_lost with the status 404/],
    ['/things/1', 404, { code: 404, error: 'conflict', message: 'x' }, /the error conflict with the status 404/],
    ['/unknown', 200, {}, /a missing route does not declare: the status 200/],
  ]
  for (const [path, status, body, message] of refused) {
    assert.throws(() => check('GET', path, answer(status, body)), message, `${path} ${status}`)
  }
})
