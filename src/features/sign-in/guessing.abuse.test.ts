import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hashSync } from '@node-rs/bcrypt'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { eventually, heardOn, startServer } from '../../../test/kit/kit.ts'

const config = {
  'server.trusted_proxies': ['127.0.0.1'],
  'auth.anonymous_auth_enabled': true,
  'auth.sms_enabled': true,
  'auth.sms_code_length': 4,
}
const api = await startServer({ config })
const other = await startServer({ on: api, config })
const mail = mailbox(api)
const password = 'long enough password'

let address = 0
/** Each call from an address of its own, over two servers. */
const guess = (email: string, secret: string) =>
  (++address % 2 ? api : other).call('POST /api/auth/login', {
    json: { email, password: secret },
    headers: { 'x-forwarded-for': `10.1.${address >> 8}.${address & 255}` },
  })

test('however many addresses guess, an account takes a hundred wrong passwords and no more', async () => {
  await api.signUp('victim@x.test')
  await api.signUp('bystander@x.test')
  const answers = await Promise.all(
    Array.from({ length: 160 }, (_, i) => guess('victim@x.test', `wrong password ${i}`)),
  )
  const checked = answers.filter(({ status }) => status === 401).length
  assert.ok(checked <= 100, `${checked} passwords were checked`)
  assert.ok(checked >= 90, `${checked} passwords were checked`)
  const refused = await guess('victim@x.test', password)
  assert.deepEqual([refused.status, refused.body.message], [429, 'too many failed attempts, try again later'])
  assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  assert.equal((await guess('bystander@x.test', password)).status, 200)

  assert.equal((await api.call('POST /api/auth/password-reset', { json: { email: 'victim@x.test' } })).status, 204)
  const token = await mail.token('victim@x.test', 2)
  const renewed = { token, password: 'another long password' }
  assert.equal((await api.call('POST /api/auth/password-reset/confirm', { json: renewed })).status, 204)
  assert.equal((await guess('victim@x.test', renewed.password)).status, 200)
})

test('a right password ends the row of failures', async () => {
  await api.signUp('clumsy@x.test')
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 40; i++) assert.equal((await guess('clumsy@x.test', 'wrong password')).status, 401)
    assert.equal((await guess('clumsy@x.test', password)).status, 200)
  }
})

const codesTo = (phone: string): string[] =>
  heardOn(api)
    .filter(({ message, attrs }) => message === 'sms' && attrs?.['to'] === phone)
    .map(({ attrs }) => /\d{4}/.exec(String(attrs?.['body']))?.[0] ?? '')

test('a new text message brings no new tries at its code', async () => {
  const phone = '+4915112345678'
  const confirm = (code: string) => other.call('POST /api/auth/sms/confirm', { json: { phone, code } })
  let wrong = 0
  let newest = ''
  for (let sent = 1; sent <= 12; sent++) {
    const before = codesTo(phone).length
    assert.equal((await api.call('POST /api/auth/sms', { json: { phone } })).status, 200)
    if (sent <= 10) await eventually(() => assert.equal(codesTo(phone).length, before + 1))
    newest = codesTo(phone).at(-1) ?? ''
    for (let i = 0; i < 3; i++) {
      const { status } = await confirm(newest === '0000' ? '1111' : '0000')
      if (status === 401) wrong++
      else assert.equal(status, 429)
    }
  }
  assert.equal(wrong, 30)
  const right = await confirm(newest)
  assert.deepEqual([right.status, right.body.message], [429, 'too many failed attempts, try again later'])
  assert.equal(codesTo(phone).length, 10)

  await api.sql(`update svc.sms_codes set locked_until = now() - interval '1 second'`)
  assert.equal((await api.call('POST /api/auth/sms', { json: { phone } })).status, 200)
  await eventually(() => assert.equal(codesTo(phone).length, 11))
  assert.equal((await confirm(codesTo(phone).at(-1) ?? '')).status, 200)
})

test('link/email is no probe for addresses and fills no queue of hashes', async () => {
  const limited = await startServer({ on: api, config: { ...config, 'rate_limit.link': '10/hour' } })
  const { token } = (await api.call('POST /api/auth/anonymous')).body
  const link = (server: typeof api, i: number) =>
    server.call('POST /api/auth/link/email', {
      as: token,
      json: { email: `bystander@x.test`, password: `${password}${i}` },
    })
  const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => link(limited, i)))
  assert.ok(answers.filter(({ status }) => status === 429).length >= 30)
  assert.equal(answers[0]?.headers.get('x-ratelimit-limit'), '10')

  const burst = await Promise.all(Array.from({ length: 60 }, (_, i) => link(api, i)))
  assert.ok(burst.every(({ status }) => status === 409 || status === 503))
})

test('a stored hash that cannot be read is a wrong password, and bcrypt becomes argon2id', async () => {
  const { user } = await api.signUp('moved@x.test')
  const store = (hash: string) => api.sql('update svc.users set password_hash = $2 where id = $1', [user.id, hash])
  const hash = hashSync(password, 5)
  const unreadable = ['', 'x', '$2b$16$', '$2b$', '$argon2id$', '{SSHA}abc', hash.replace('$05$', '$16$'), `${hash}\n`]
  for (const text of unreadable) {
    await store(text)
    const { status, body } = await guess('moved@x.test', password)
    assert.deepEqual([status, body.message], [401, 'invalid email or password'], text)
  }
  for (const kind of ['$2a$', '$2b$', '$2y$']) {
    await store(kind + hash.slice(4))
    assert.equal((await guess('moved@x.test', 'wrong password')).status, 401)
    assert.equal((await guess('moved@x.test', password)).status, 200, kind)
    const [row] = await api.sql('select password_hash from svc.users where id = $1', [user.id])
    assert.match(row.password_hash, /^\$argon2id\$/)
    assert.equal((await guess('moved@x.test', password)).status, 200)
  }
})
