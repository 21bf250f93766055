import assert from 'node:assert/strict'
import { test } from 'node:test'
import { route, serve } from '../../test/kit/http.ts'
import { type Access, type Auth, json } from './route.ts'

const at = (auth: Auth, access: Access = 'none') =>
  route(`GET /${auth}/${access}`, { auth, access, handle: ({ who }) => json(200, { kind: who.kind }) })

const api = await serve([
  at('none'),
  at('optional'),
  at('optional', 'read'),
  at('optional', 'write'),
  at('anonymous-user'),
  at('user'),
  at('user', 'read'),
  at('user', 'write'),
  at('mfa'),
  at('mfa', 'read'),
  at('user-or-mfa'),
  at('admin'),
  at('admin', 'write'),
])

const MISSING = '401 missing or invalid authorization header'
const INVALID = '401 invalid or expired token'
const NOT_HERE = '403 API keys cannot be used here'
const NO_WRITE = '403 api key scope does not permit write operations'
const MFA = '401 MFA verification required'
const NO_MFA = '401 no MFA challenge pending'
const NOT_AUTH = '401 not authenticated'
const ADMIN = '401 admin authentication required'

// Who may call what, as one table: rows are routes, columns are bearers.
const bearers = ['', 'rubbish', 'ana', 'pending', 'operator', 'readonly', 'readwrite']
const table: Record<string, string[]> = {
  '/none/none': ['anonymous', 'anonymous', 'anonymous', 'anonymous', 'anonymous', 'anonymous', 'anonymous'],
  '/optional/none': ['anonymous', INVALID, 'user', MFA, 'admin', NOT_HERE, NOT_HERE],
  '/optional/read': ['anonymous', INVALID, 'user', MFA, 'admin', 'key', 'key'],
  '/optional/write': ['anonymous', INVALID, 'user', MFA, 'admin', NO_WRITE, 'key'],
  '/anonymous-user/none': Array(7).fill('anonymous'),
  '/user/none': [MISSING, INVALID, 'user', MFA, NOT_AUTH, NOT_HERE, NOT_HERE],
  '/user/read': [MISSING, INVALID, 'user', MFA, NOT_AUTH, 'key', 'key'],
  '/user/write': [MISSING, INVALID, 'user', MFA, NOT_AUTH, NO_WRITE, 'key'],
  '/mfa/none': [MISSING, INVALID, NO_MFA, 'mfa', NOT_AUTH, NOT_HERE, NOT_HERE],
  '/mfa/read': [MISSING, INVALID, NO_MFA, 'mfa', NOT_AUTH, NOT_HERE, NOT_HERE],
  '/user-or-mfa/none': [MISSING, INVALID, 'user', 'mfa', NOT_AUTH, NOT_HERE, NOT_HERE],
  '/admin/none': [ADMIN, ADMIN, ADMIN, ADMIN, 'admin', ADMIN, ADMIN],
  '/admin/write': [ADMIN, ADMIN, ADMIN, ADMIN, 'admin', ADMIN, ADMIN],
}

const outcome = async (url: string, authorization?: string): Promise<string> => {
  const answer = await fetch(url, authorization === undefined ? {} : { headers: { authorization } })
  const body = (await answer.json()) as { kind?: string; message?: string; code?: number }
  if (answer.status === 401) assert.equal(answer.headers.get('www-authenticate'), 'Bearer')
  return body.kind ?? `${answer.status} ${body.message}`
}

for (const [path, expected] of Object.entries(table)) {
  test(`${path} lets in whom it names and nobody else`, async () => {
    const got = await Promise.all(
      bearers.map((bearer) => outcome(`${api.url}${path}`, bearer === '' ? undefined : `Bearer ${bearer}`)),
    )
    assert.deepEqual(got, expected)
  })
}

test('a header that is no bearer is refused, also where a bearer is optional', async () => {
  for (const header of ['Basic YTpi', 'Bearer', 'Bearer ', 'ana', 'Bearer ana ana', 'Token ana']) {
    assert.equal(await outcome(`${api.url}/optional/read`, header), MISSING, header)
    assert.equal(await outcome(`${api.url}/user/none`, header), MISSING, header)
    assert.equal(await outcome(`${api.url}/admin/none`, header), ADMIN, header)
  }
  assert.equal(await outcome(`${api.url}/user/none`, 'bEaReR ana'), 'user')
})

test('a token in the query or a cookie is not a bearer', async () => {
  const answer = await fetch(`${api.url}/user/none?token=ana&access_token=ana`, { headers: { cookie: 'token=ana' } })
  assert.equal(answer.status, 401)
})

test('without auth, routes that need a user do not exist and the others go on', async () => {
  const off = await serve([at('user'), at('mfa'), at('optional'), at('admin')], { authEnabled: false })
  assert.equal(await outcome(`${off.url}/user/none`), '404 auth is not enabled')
  assert.equal(await outcome(`${off.url}/mfa/none`, 'Bearer pending'), '404 auth is not enabled')
  assert.equal(await outcome(`${off.url}/optional/none`), 'anonymous')
  assert.equal(await outcome(`${off.url}/admin/none`, 'Bearer operator'), 'admin')
})
