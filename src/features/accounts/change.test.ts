import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { startServer } from '../../../test/kit/kit.ts'

const config = { 'server.public_base_url': 'https://api.x.test' }
const api = await startServer({ config })
const other = await startServer({ config, on: api })
const mail = mailbox(api)
const password = 'long enough password'

const patch = (as: string, json: object) => api.call('PATCH /api/auth/me', { as, json })
const confirm = (token: string) => api.call('POST /api/auth/email-change/confirm', { json: { token } })
const revert = (token: string) => api.call('POST /api/auth/email-change/revert', { json: { token } })
const login = (email: string) => api.call('POST /api/auth/login', { json: { email, password } })

const tokenOf = (to: string, page: string): Promise<string> => mail.token(to, 1, `/auth/${page}`)

test('metadata is the user’s own, replaced as a whole, at most 16 KB, and in svc.claims()', async () => {
  const { token, user } = await api.signUp('meta@x.test')
  assert.equal('metadata' in user, false)
  const set = await patch(token, { metadata: { theme: 'dark', nothing: null } })
  assert.deepEqual([set.status, set.body.metadata], [200, { theme: 'dark', nothing: null }])
  assert.deepEqual((await patch(token, { metadata: { a: 1 } })).body.metadata, { a: 1 })
  assert.equal((await patch(token, { metadata: { big: 'x'.repeat(17_000) } })).status, 400)
  assert.equal((await patch(token, { metadata: [1] })).status, 400)
  assert.equal((await patch(token, { app_metadata: { role: 'admin' } })).body.app_metadata, undefined)
  await api.sql('create function claims() returns jsonb language sql stable as $$ select svc.claims() $$')
  const { body } = await api.call('POST /api/rpc/claims', { as: token })
  assert.deepEqual(body, {
    sub: user.id,
    email: 'meta@x.test',
    aal: 'aal1',
    metadata: { a: 1 },
    app_metadata: {},
  })
  assert.deepEqual((await api.call('POST /api/rpc/claims')).body, {})
})

test('a new address counts once its link was opened, everywhere', async () => {
  const { token } = await api.signUp('old@x.test')
  const asked = await patch(token, { email: ' New@x.test' })
  assert.deepEqual([asked.status, asked.body.email], [200, 'old@x.test'])
  const link = await tokenOf('new@x.test', 'email-change')
  assert.equal((await other.call('GET /api/auth/me', { as: token })).body.email, 'old@x.test')
  const race = await Promise.all(Array.from({ length: 5 }, () => confirm(link)))
  assert.deepEqual(race.map(({ status }) => status).sort(), [204, 400, 400, 400, 400])
  const me = await other.call('GET /api/auth/me', { as: token })
  assert.deepEqual([me.body.email, me.body.emailVerified], ['new@x.test', true])
  assert.deepEqual([(await login('new@x.test')).status, (await login('old@x.test')).status], [200, 401])
})

test('the former address takes the account back: every session ends, and the password of the thief too', async () => {
  const { token } = await api.signUp('victim@x.test')
  await patch(token, { email: 'thief@x.test' })
  assert.equal((await confirm(await tokenOf('thief@x.test', 'email-change'))).status, 204)
  const back = await tokenOf('victim@x.test', 'email-revert')
  // What a thief adds to keep the account.
  await api.sql(`insert into svc.identities (provider, subject, user_id) select 'google', 'thief', id from svc.users where email = 'thief@x.test';
    insert into svc.mfa_factors (id, user_id, method, phone, confirmed_at)
      select gen_random_uuid(), id, 'sms', '+4915112345678', now() from svc.users where email = 'thief@x.test'`)
  // A link to the thief's address that was asked for meanwhile.
  await api.call('POST /api/auth/password-reset', { json: { email: 'thief@x.test' } })
  const stolen = await tokenOf('thief@x.test', 'reset')
  assert.equal((await revert(back)).status, 204)
  assert.equal((await revert(back)).status, 400)
  assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 401)
  const reset = (link: string) =>
    api.call('POST /api/auth/password-reset/confirm', { json: { token: link, password: 'the next long password' } })
  assert.equal((await reset(stolen)).status, 400)
  assert.deepEqual([(await login('thief@x.test')).status, (await login('victim@x.test')).status], [401, 401])
  assert.equal((await reset(await tokenOf('victim@x.test', 'reset'))).status, 204)
  const again = await api.call('POST /api/auth/login', {
    json: { email: 'victim@x.test', password: 'the next long password' },
  })
  assert.equal(again.body.mfa_pending, undefined)
  assert.deepEqual(await api.sql(`select from svc.identities where subject = 'thief'`), [])
})

test('the former address takes the account back from every address it had since, not the other way round', async () => {
  const { token, user } = await api.signUp('first@x.test')
  for (const [from, to] of [
    ['first@x.test', 'second@x.test'],
    ['second@x.test', 'third@x.test'],
  ] as const) {
    await patch(token, { email: to })
    assert.equal((await confirm(await tokenOf(to, 'email-change'))).status, 204, from)
  }
  await patch(token, { email: 'fourth@x.test' })
  const [owners, thiefs] = [
    await tokenOf('first@x.test', 'email-revert'),
    await tokenOf('second@x.test', 'email-revert'),
  ]
  const waiting = await tokenOf('fourth@x.test', 'email-change')
  assert.equal((await revert(owners)).status, 204)
  const reset = await tokenOf('first@x.test', 'reset')
  await api.call('POST /api/auth/password-reset/confirm', { json: { token: reset, password } })
  assert.equal((await revert(thiefs)).status, 400)
  assert.equal((await confirm(waiting)).status, 400)
  const { body } = await login('first@x.test')
  assert.deepEqual([body.user.id, body.user.email], [user.id, 'first@x.test'])
})

test('neither a reset nor a step back to a later address takes the link from the first one', async () => {
  const { token } = await api.signUp('mine@x.test')
  await patch(token, { email: 'theirs@x.test' })
  await confirm(await tokenOf('theirs@x.test', 'email-change'))
  await patch(token, { email: 'theirs-too@x.test' })
  await confirm(await tokenOf('theirs-too@x.test', 'email-change'))
  assert.equal((await revert(await tokenOf('theirs@x.test', 'email-revert'))).status, 204)
  const reset = { token: await tokenOf('theirs@x.test', 'reset'), password }
  assert.equal((await api.call('POST /api/auth/password-reset/confirm', { json: reset })).status, 204)
  assert.equal((await revert(await tokenOf('mine@x.test', 'email-revert'))).status, 204)
  assert.equal((await login('theirs@x.test')).status, 401)
})

test('whoever asks for links to an address does not keep the notice of a change from it', async () => {
  const { token } = await api.signUp('flooded@x.test')
  await patch(token, { email: 'flooder@x.test' })
  const link = await tokenOf('flooder@x.test', 'email-change')
  for (const _ of Array(10).keys()) {
    await api.call('POST /api/auth/password-reset', { json: { email: 'flooded@x.test' } })
  }
  assert.equal((await confirm(link)).status, 204)
  assert.equal((await revert(await tokenOf('flooded@x.test', 'email-revert'))).status, 204)
})

test('a password reset ends a change of address that was asked for', async () => {
  const { token } = await api.signUp('careful@x.test')
  await patch(token, { email: 'waiting@x.test' })
  const pending = await tokenOf('waiting@x.test', 'email-change')
  await api.call('POST /api/auth/password-reset', { json: { email: 'careful@x.test' } })
  const link = await tokenOf('careful@x.test', 'reset')
  const done = await api.call('POST /api/auth/password-reset/confirm', { json: { token: link, password } })
  assert.equal(done.status, 204)
  assert.equal((await confirm(pending)).status, 400)
})

test('an address of another account is refused when its link is opened, not before', async () => {
  const { token } = await api.signUp('wants@x.test')
  await api.signUp('taken@x.test')
  assert.equal((await patch(token, { email: 'taken@x.test' })).status, 200)
  const taken = await confirm(await tokenOf('taken@x.test', 'email-change'))
  assert.deepEqual([taken.status, taken.body.error], [409, 'email_taken'])
})
