import assert from 'node:assert/strict'
import { get } from 'node:http'
import { test } from 'node:test'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { atEnd } from '../kit/at-end.ts'
import { startServer } from '../kit/kit.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
const ada = await api.signUp('ada@example.test')
const locker = await openConnection({ url: api.databaseUrl })
atEnd(() => locker.end())
const login = { json: { email: ada.user.email, password: 'long enough password' } }

/** fetch does not let us choose the host. */
const site = (path: string) =>
  new Promise((resolve, reject) => {
    get(api.url + path, { headers: { host: 'shop.localhost' }, agent: false }, (response) =>
      response.resume().on('end', resolve),
    ).on('error', reject)
  })
const basic = { authorization: `Basic ${btoa('svc_cid_x:y')}` }
const authorize = 'GET /api/auth/authorize?client_id=svc_cid_x&response_type=code'
const crowds: [string, string, () => Promise<unknown>][] = [
  ['lists of a bucket', 'svc.objects', () => api.call('GET /api/storage/open?limit=1')],
  ['downloads', 'svc.objects', () => api.call('GET /api/storage/open/x')],
  ['pages of a site', 'svc.sites', () => site('/index.html')],
  ['prompts for consent', 'svc.oauth_clients', () => api.call(authorize, { as: ada.token })],
  [
    'tokens for applications',
    'svc.oauth_clients',
    () => api.call('POST /api/auth/token', { form: { grant_type: 'client_credentials', scope: '*' }, headers: basic }),
  ],
]

for (const [what, table, call] of crowds) {
  test(`${what} that wait in PostgreSQL keep no one from signing in`, async () => {
    await locker.query(`begin; lock table ${table} in access exclusive mode`)
    let answered = 0
    const crowd = Array.from({ length: 60 }, () => call().finally(() => answered++))
    try {
      const signedIn = await api.call('POST /api/auth/login', login)
      const users = await api.call('GET /api/admin/users', { as: 'admin' })
      assert.deepEqual([signedIn.status, users.status, answered], [200, 200, 0])
    } finally {
      await locker.query('rollback')
      await Promise.all(crowd)
    }
  })
}
