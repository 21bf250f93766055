import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const config = { 'auth.magic_link_enabled': true, 'server.public_base_url': 'https://api.x.test' }
const api = await startServer({ config })
const other = await startServer({ config, on: api })
const mail = mailbox(api)
const password = 'long enough password'
const fresh = 'another long password'

const login = (email: string, secret: string) => api.call('POST /api/auth/login', { json: { email, password: secret } })
const confirmReset = (token: unknown, secret: unknown = fresh, server = api) =>
  server.call('POST /api/auth/password-reset/confirm', { json: { token, password: secret } })
const confirmLink = (token: unknown, as?: string, server = api) =>
  server.call('POST /api/auth/magic-link/confirm', { json: { token }, ...(as && { as }) })

test('the mail of a registration verifies the address, once', async () => {
  const { token } = await api.signUp('verify@x.test')
  const link = await mail.link('verify@x.test')
  assert.equal(link.origin + link.pathname, 'https://api.x.test/auth/verify')
  assert.match(link.searchParams.get('token') ?? '', /^[\w-]{43}$/)
  assert.equal(mail.mails('verify@x.test')[0]?.subject, 'Verify your email')
  const verify = () => api.call('POST /api/auth/verify', { json: { token: link.searchParams.get('token') } })
  assert.equal((await verify()).status, 204)
  assert.equal((await api.call('GET /api/auth/me', { as: token })).body.emailVerified, true)
  const again = await verify()
  assert.deepEqual([again.status, again.body.message], [400, 'invalid or expired verification token'])
  assert.equal((await login('verify@x.test', password)).status, 200)

  assert.equal((await api.call('POST /api/auth/verify/resend', { as: token })).status, 204)
  assert.equal(mail.mails('verify@x.test').length, 1)
})

test('a resent verification leaves the first one good, and the one used ends both', async () => {
  const { token } = await api.signUp('resend@x.test')
  const first = await mail.token('resend@x.test')
  assert.equal((await api.call('POST /api/auth/verify/resend', { as: token })).status, 204)
  const second = await mail.token('resend@x.test', 2)
  assert.equal((await api.call('POST /api/auth/verify', { json: { token: first } })).status, 204)
  assert.equal((await api.call('POST /api/auth/verify', { json: { token: second } })).status, 400)
  assert.equal((await api.call('POST /api/auth/verify/resend')).status, 401)
})

test('a reset changes the password and ends everything that was open', async () => {
  const before = await api.signUp('reset@x.test')
  assert.equal((await api.call('POST /api/auth/password-reset', { json: { email: 'RESET@x.test' } })).status, 204)
  const link = await mail.link('reset@x.test', 1, '/auth/reset')
  assert.equal(link.origin + link.pathname, 'https://api.x.test/auth/reset')
  const token = link.searchParams.get('token')

  const race = await Promise.all(Array.from({ length: 20 }, (_, i) => confirmReset(token, fresh, i % 2 ? api : other)))
  assert.deepEqual(race.map(({ status }) => status).sort(), [204, ...Array(19).fill(400)])
  assert.equal((await login('reset@x.test', password)).status, 401)
  const after = await login('reset@x.test', fresh)
  assert.deepEqual([after.status, after.body.user.emailVerified], [200, true])
  assert.equal((await api.call('GET /api/auth/me', { as: before.token })).status, 401)
  await eventually(async () => assert.equal((await other.call('GET /api/auth/me', { as: before.token })).status, 401))
  assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken: before.refreshToken } })).status, 401)
})

test('nothing but a reset token that is not over resets', async () => {
  const { token: jwt, refreshToken } = await api.signUp('strict@x.test')
  const verifyToken = await mail.token('strict@x.test')
  await api.call('POST /api/auth/magic-link', { json: { email: 'strict@x.test' } })
  const magicToken = await mail.token('strict@x.test', 2)
  await api.call('POST /api/auth/password-reset', { json: { email: 'strict@x.test' } })
  const oldToken = await mail.token('strict@x.test', 3)
  await api.call('POST /api/auth/password-reset', { json: { email: 'strict@x.test' } })
  const newToken = await mail.token('strict@x.test', 4)
  await api.sql(
    `update svc.mail_tokens set expires_at = now() - interval '1 second' where purpose = 'reset' and email = 'strict@x.test'`,
  )
  for (const token of [oldToken, newToken, magicToken, verifyToken, jwt, refreshToken, 'x', 'a'.repeat(10_000)]) {
    const { status, body } = await confirmReset(token)
    assert.deepEqual([status, body.message], [400, 'invalid or expired reset token'])
  }
  for (const [token, message] of [
    [undefined, 'token is required'],
    ['', 'token is required'],
    [null, 'token is required'],
    [7, 'token must be a string'],
    [[newToken], 'token must be a string'],
    [{ length: 43 }, 'token must be a string'],
  ]) {
    const { status, body } = await confirmReset(token)
    assert.deepEqual([status, body.message], [400, message])
  }
  for (const [secret, message] of [
    [null, 'password is required'],
    ['short', 'password must be at least 8 characters'],
    ['a'.repeat(1025), 'password must be at most 1024 bytes'],
    [{}, 'password must be a string'],
  ]) {
    const { status, body } = await confirmReset(newToken, secret)
    assert.deepEqual([status, body.message], [400, message])
  }
  assert.equal((await login('strict@x.test', password)).status, 200)
})

test('asking for a reset tells nothing about accounts', async () => {
  await api.signUp('exists@x.test')
  await mail.token('exists@x.test')
  const known = await api.call('POST /api/auth/password-reset', { json: { email: 'exists@x.test' } })
  const unknown = await api.call('POST /api/auth/password-reset', { json: { email: 'nobody@x.test' } })
  assert.deepEqual([known.status, known.text], [204, ''])
  assert.deepEqual([unknown.status, unknown.text], [204, ''])
  await mail.token('exists@x.test', 2)
  assert.equal(mail.mails('nobody@x.test').length, 0)
  for (const [json, message] of [
    [{}, 'email is required'],
    [{ email: '' }, 'email is required'],
    [{ email: 'x' }, 'invalid email format'],
    [{ email: [] }, 'email must be a string'],
    [{ email: { $gt: '' } }, 'email must be a string'],
  ]) {
    const { status, body } = await api.call('POST /api/auth/password-reset', { json })
    assert.deepEqual([status, body.message], [400, message])
  }
})

test('a look-alike address does not get the mail of the other', async () => {
  await api.signUp('kim@x.test')
  await mail.token('kim@x.test')
  await api.call('POST /api/auth/password-reset', { json: { email: '\u212Aim@x.test' } })
  await api.call('POST /api/auth/password-reset', { json: { email: 'kim@x.test' } })
  await mail.token('kim@x.test', 2)
  assert.equal(mail.mails('\u212Aim@x.test').length, 0)
})

test('links come from the configuration, whatever the request claims', async () => {
  const headers = {
    host: 'evil.test',
    'x-forwarded-host': 'evil.test',
    'x-forwarded-proto': 'javascript',
    origin: 'https://evil.test',
    forwarded: 'host=evil.test;proto=http',
    referer: 'https://evil.test/',
  }
  await api.signUp('host@x.test')
  const first = await mail.link('host@x.test')
  await api.call('POST /api/auth/password-reset', { json: { email: 'host@x.test' }, headers })
  const second = await mail.link('host@x.test', 2)
  await api.call('POST /api/auth/magic-link', { json: { email: 'host@x.test' }, headers })
  const third = await mail.link('host@x.test', 3)
  for (const link of [first, second, third]) assert.equal(link.origin, 'https://api.x.test')
})

test('own pages take the place of the built-in ones', async () => {
  const own = await startServer({
    config: {
      'auth.verify_url': 'https://app.x.test/check?from=mail',
      'auth.reset_url': 'https://app.x.test/reset#top',
    },
  })
  await own.signUp('own@x.test')
  await own.call('POST /api/auth/password-reset', { json: { email: 'own@x.test' } })
  await mailbox(own).link('own@x.test', 2)
  const texts = mailbox(own)
    .mails('own@x.test')
    .map(({ text }) => text)
    .join('\n')
  assert.match(texts, /https:\/\/app\.x\.test\/check\?from=mail&token=[\w-]{43}\s/)
  assert.match(texts, /https:\/\/app\.x\.test\/reset\?token=[\w-]{43}#top/)
})

test('a magic link makes an account or signs in to it, once', async () => {
  const ask = await api.call('POST /api/auth/magic-link', { json: { email: 'New@x.test' } })
  assert.deepEqual([ask.status, ask.body], [200, { message: 'if valid, a login link has been sent' }])
  const link = await mail.link('new@x.test')
  assert.equal(link.origin + link.pathname, 'https://api.x.test/auth/magic-link')
  assert.deepEqual(await api.sql(`select 1 from svc.users where email = 'new@x.test'`), [])

  const token = link.searchParams.get('token')
  const race = await Promise.all(
    Array.from({ length: 50 }, (_, i) => confirmLink(token, undefined, i % 2 ? api : other)),
  )
  const won = race.filter(({ status }) => status === 200)
  assert.equal(won.length, 1)
  for (const { status, body } of race.filter((answer) => answer.status !== 200)) {
    assert.deepEqual([status, body.message], [400, 'invalid or expired magic link token'])
  }
  const { user, token: jwt } = won[0]?.body ?? {}
  assert.deepEqual([user.email, user.emailVerified, user.is_anonymous], ['new@x.test', true, false])
  assert.deepEqual(JSON.parse(Buffer.from(jwt.split('.')[1], 'base64url').toString()).amr, ['otp'])

  await api.call('POST /api/auth/magic-link', { json: { email: 'new@x.test' } })
  const second = await confirmLink(await mail.token('new@x.test', 2))
  assert.deepEqual([second.status, second.body.user.id], [200, user.id])
  assert.equal((await api.call('GET /api/auth/me', { as: jwt })).status, 200)
})

test('magic links refuse bad input and are off by default', async () => {
  for (const [json, message] of [
    [{}, 'email is required'],
    [{ email: 'x' }, 'invalid email format'],
    [{ email: 1 }, 'email must be a string'],
  ]) {
    const { status, body } = await api.call('POST /api/auth/magic-link', { json })
    assert.deepEqual([status, body.message], [400, message])
  }
  for (const [token, message] of [
    [undefined, 'token is required'],
    ['', 'token is required'],
    [[], 'token must be a string'],
    ['x', 'invalid or expired magic link token'],
  ]) {
    const { status, body } = await confirmLink(token)
    assert.deepEqual([status, body.message], [400, message])
  }
  const off = await startServer({ on: api })
  for (const line of ['POST /api/auth/magic-link', 'POST /api/auth/magic-link/confirm'] as const) {
    const { status, body } = await off.call(line, { json: { email: 'x@x.test', token: 'x' } })
    assert.deepEqual([status, body.message], [404, 'magic link authentication is not enabled'])
  }
})

test('whoever registered an address before its owner came is locked out', async () => {
  for (const proof of ['magic link', 'reset'] as const) {
    const email = `victim-${proof.replace(' ', '')}@x.test`
    const attacker = await api.signUp(email)
    const key = await api.call('POST /api/auth/api-keys', { as: attacker.token, json: { name: 'wait' } })
    assert.equal(key.status, 201)
    await api.sql(`insert into svc.identities (provider, subject, user_id) values ('github', $1, $2)`, [
      email,
      attacker.user.id,
    ])
    // As an import brings who has proven a number elsewhere.
    await api.sql(`update svc.users set phone = '+41790000001' where id = $1`, [attacker.user.id])
    await mail.token(email)

    if (proof === 'reset') {
      await api.call('POST /api/auth/password-reset', { json: { email } })
      assert.equal((await confirmReset(await mail.token(email, 2))).status, 204)
    } else {
      await api.call('POST /api/auth/magic-link', { json: { email } })
      const owner = await confirmLink(await mail.token(email, 2))
      assert.deepEqual([owner.status, owner.body.user.id, owner.body.user.emailVerified], [200, attacker.user.id, true])
      assert.equal((await api.call('GET /api/auth/me', { as: owner.body.token })).status, 200)
    }
    assert.equal((await login(email, password)).status, 401)
    assert.equal((await api.call('GET /api/auth/me', { as: attacker.token })).status, 401)
    assert.equal(
      (await api.call('POST /api/auth/refresh', { json: { refreshToken: attacker.refreshToken } })).status,
      401,
    )
    assert.equal((await api.call('GET /api/auth/me', { as: key.body.key })).status, 401)
    assert.deepEqual(await api.sql('select 1 from svc.identities where subject = $1', [email]), [])
    assert.deepEqual(await api.sql('select phone from svc.users where email = $1', [email]), [{ phone: null }])
  }
})

test('a verified account keeps its password when its owner uses a magic link', async () => {
  const { token } = await api.signUp('keeps@x.test')
  await api.call('POST /api/auth/verify', { json: { token: await mail.token('keeps@x.test') } })
  await api.call('POST /api/auth/magic-link', { json: { email: 'keeps@x.test' } })
  assert.equal((await confirmLink(await mail.token('keeps@x.test', 2))).status, 200)
  assert.equal((await login('keeps@x.test', password)).status, 200)
  assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 200)
})

test('tokens in mails are stored only as hashes', async () => {
  await api.signUp('hashed@x.test')
  const token = await mail.token('hashed@x.test')
  const rows = await api.sql('select t::text as row from svc.mail_tokens t')
  assert.ok(rows.length > 0 && rows.every(({ row }) => !row.includes(token)))
})
