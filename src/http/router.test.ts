import assert from 'node:assert/strict'
import { test } from 'node:test'
import { route } from '../../test/kit/http.ts'
import { json, type Route } from './route.ts'
import { createRouter } from './router.ts'

const at = (line: `GET /${string}` | `POST /${string}` | `DELETE /${string}`): Route =>
  route(line, { auth: 'none', handle: () => json(200, {}) })

const found = (routes: Route[], line: string) => {
  const [method = '', path = ''] = line.split(' ')
  const match = createRouter(routes).find(method, path)
  if (match.kind === 'found') return { path: match.route.path, raw: match.raw }
  if (match.kind === 'unknown') return match
  const { kind, allow, missing } = match
  return { kind, allow, path: match.route.path, ...(missing !== undefined && { missing }) }
}

const things = [
  at('GET /api/things'),
  at('POST /api/things'),
  at('GET /api/things/{id}'),
  at('POST /api/things/sign'),
  at('GET /api/things/{id}/parts/{part}'),
  at('GET /files/{bucket}/{name...}'),
]

test('a literal segment wins over a parameter, a parameter over the rest of a path', () => {
  assert.deepEqual(found(things, 'GET /api/things/7'), { path: '/api/things/{id}', raw: ['7'] })
  assert.deepEqual(found(things, 'POST /api/things/sign'), { path: '/api/things/sign', raw: [] })
  assert.deepEqual(found(things, 'GET /api/things/7/parts/a%2Fb'), {
    path: '/api/things/{id}/parts/{part}',
    raw: ['7', 'a%2Fb'],
  })
  assert.deepEqual(found(things, 'GET /files/pub/a/b/c.txt'), {
    path: '/files/{bucket}/{name...}',
    raw: ['pub', 'a/b/c.txt'],
  })
})

test('a literal path without the method leaves the parameter route reachable', () => {
  assert.deepEqual(found(things, 'GET /api/things/sign'), { path: '/api/things/{id}', raw: ['sign'] })
})

test('HEAD is answered by GET, and other methods learn what is allowed', () => {
  assert.deepEqual(found(things, 'HEAD /api/things'), { path: '/api/things', raw: [] })
  assert.deepEqual(found(things, 'DELETE /api/things'), {
    kind: 'wrong method',
    allow: 'GET, POST, HEAD, OPTIONS',
    path: '/api/things',
  })
  assert.deepEqual(found(things, 'PUT /api/things/sign'), {
    kind: 'wrong method',
    allow: 'POST, GET, HEAD, OPTIONS',
    path: '/api/things/sign',
  })
})

test('no other spelling of a path reaches its route', () => {
  const others = [
    '/api//things',
    '/API/things',
    '/api/things//',
    '/api/things;x=1',
    'api/things',
    '//api/things',
    '/api/things%2f7',
    '/api/things/7//',
    '//',
    '/files/pub/',
    '/files//x',
    '',
    '*',
  ]
  for (const path of others) assert.deepEqual(found(things, `GET ${path}`), { kind: 'unknown' }, path)
})

test('one slash at the end is ignored, except in the rest of a path, where it is part of a name', () => {
  assert.deepEqual(found(things, 'GET /api/things/'), { path: '/api/things', raw: [] })
  assert.deepEqual(found(things, 'GET /api/things/7/'), { path: '/api/things/{id}', raw: ['7'] })
  assert.deepEqual(found(things, 'GET /files/pub/a/b/'), { path: '/files/{bucket}/{name...}', raw: ['pub', 'a/b/'] })
})

test('two routes for one path refuse to start', () => {
  assert.throws(
    () => createRouter([at('GET /a/{x}'), at('GET /a/{y}')]),
    /duplicate route: GET \/a\/\{y\} and \/a\/\{x\}/,
  )
  assert.throws(() => createRouter([at('GET /a/{rest...}/b/c')]), /only one word may follow/)
})

test('one word may follow the rest of a path, and is part of a name where nothing else is meant', () => {
  const files = [...things, at('POST /files/{bucket}/{name...}/sign')]
  const sign = { path: '/files/{bucket}/{name...}/sign', raw: ['pub', 'a/b'] }
  assert.deepEqual(found(files, 'POST /files/pub/a/b/sign'), sign)
  assert.deepEqual(found(files, 'GET /files/pub/a/b/sign'), {
    path: '/files/{bucket}/{name...}',
    raw: ['pub', 'a/b/sign'],
  })
  assert.deepEqual(found(files, 'POST /files/pub/sign'), {
    kind: 'wrong method',
    allow: 'GET, HEAD, OPTIONS',
    path: '/files/{bucket}/{name...}',
  })
})

test('a collection with a slash and no name behind it tells what is missing, where the method is for its items', () => {
  const removable = [
    ...things,
    at('DELETE /api/things/{id}'),
    at('GET /files/{bucket}'),
    at('DELETE /files/{bucket}/{name...}'),
  ]
  const collection = { kind: 'wrong method', allow: 'GET, POST, HEAD, OPTIONS', path: '/api/things' }
  assert.deepEqual(found(removable, 'DELETE /api/things/'), { ...collection, missing: 'id' })
  assert.deepEqual(found(removable, 'DELETE /api/things'), collection)
  assert.deepEqual(found(removable, 'PUT /api/things/'), collection)
  assert.deepEqual(found(removable, 'DELETE /api/things//'), { kind: 'unknown' })
  const files = { kind: 'wrong method', allow: 'GET, HEAD, OPTIONS', path: '/files/{bucket}' }
  assert.deepEqual(found(removable, 'DELETE /files/pub/'), files)
})
