import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

/** A service for captchas, whose token `person` is good, and a list of breached passwords. */
const seen: { path: string; body: string }[] = []
let isAway = false
const service = createServer((request, response) => {
  let body = ''
  request.on('data', (chunk) => {
    body += chunk
  })
  request.on('end', () => {
    const path = request.url ?? ''
    seen.push({ path, body })
    if (isAway) return void response.destroy()
    if (path === '/siteverify') {
      const token = new URLSearchParams(body).get('response')
      return void response.end(JSON.stringify({ success: token !== 'bot', score: token === 'doubtful' ? 0.2 : 0.9 }))
    }
    const known = createHash('sha1').update('known password').digest('hex').toUpperCase()
    response.end(path.endsWith(known.slice(0, 5)) ? `${'0'.repeat(35)}:0\r\n${known.slice(5)}:42\r\n` : '')
  })
})
after(() => service.close())

let api: InProcessServer
let url = ''
before(async () => {
  await new Promise<void>((done) => service.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(service.address() as { port: number }).port}`
  api = await startServer({
    config: {
      'auth.captcha_provider': 'turnstile',
      'auth.captcha_secret': 'the secret',
      'auth.captcha_url': `${url}/siteverify`,
      'auth.password_breach_url': `${url}/range/`,
      'auth.magic_link_enabled': true,
      'auth.sms_enabled': true,
    },
  })
})
const password = 'long enough password'
const post = (path: string, json: object) => api.call(`POST /api/auth/${path}`, { json })
const said = ({ status, body }: { status: number; body: { error?: string } | undefined }) => [status, body?.error]

test('registration, magic links, SMS and resets need a captcha', async () => {
  const requests: [string, object, number][] = [
    ['register', { email: 'ana@x.test', password }, 201],
    ['magic-link', { email: 'ana@x.test' }, 200],
    ['sms', { phone: '+49 151 23456789' }, 200],
    ['password-reset', { email: 'ana@x.test' }, 204],
  ]
  for (const [path, json, status] of requests) {
    assert.deepEqual(said(await post(path, json)), [400, 'captcha_required'], path)
    assert.deepEqual(said(await post(path, { ...json, captcha_token: 'bot' })), [400, 'captcha_failed'], path)
    assert.deepEqual(said(await post(path, { ...json, captcha_token: 'doubtful' })), [400, 'captcha_failed'], path)
    assert.equal((await post(path, { ...json, captcha_token: 'person' })).status, status, path)
  }
  const asked = new URLSearchParams(seen.find(({ path }) => path === '/siteverify')?.body)
  assert.deepEqual(
    [asked.get('secret'), asked.get('response'), asked.get('remoteip')],
    ['the secret', 'bot', '127.0.0.1'],
  )
})

test('a login asks after three failures, of the account or of the address', async () => {
  const login = (email: string, given: string, more = {}) => post('login', { email, password: given, ...more })
  for (let i = 0; i < 3; i++) assert.deepEqual(said(await login('ana@x.test', 'wrong')), [401, 'invalid_credentials'])
  assert.deepEqual(said(await login('ana@x.test', password)), [400, 'captcha_required'])
  assert.deepEqual(said(await login('other@x.test', password)), [400, 'captcha_required'])
  assert.deepEqual(said(await login('ana@x.test', password, { captcha_token: 'bot' })), [400, 'captcha_failed'])
  assert.equal((await login('ana@x.test', password, { captcha_token: 'person' })).status, 200)
})

test('while the captcha cannot be checked nothing is done', async () => {
  isAway = true
  const answer = await post('register', { email: 'bo@x.test', password, captcha_token: 'person' })
  assert.deepEqual([answer.status, answer.body.message], [503, 'the captcha cannot be checked'])
  isAway = false
})

test('a password known from a breach is refused; the list sees five digits of its hash', async () => {
  const person = { captcha_token: 'person' }
  const refused = await post('register', { email: 'cy@x.test', password: 'known password', ...person })
  assert.deepEqual(
    [...said(refused), refused.body.message],
    [400, 'weak_password', 'password is known from a data breach'],
  )
  for (const { path } of seen.filter(({ path }) => path.startsWith('/range/')))
    assert.match(path, /^\/range\/[0-9A-F]{5}$/)
  const users = await api.call('POST /api/admin/users', {
    as: 'admin',
    json: { email: 'di@x.test', password: 'known password' },
  })
  assert.deepEqual(said(users), [400, 'weak_password'])
})

test('while the list is away people are not locked out', async () => {
  const alone = await startServer({ on: api, config: { 'auth.password_breach_url': 'http://127.0.0.1:9/range' } })
  const { status } = await alone.call('POST /api/auth/register', {
    json: { email: 'eve@x.test', password: 'known password' },
  })
  assert.equal(status, 201)
})

test('a sign-in from a new device is mailed to the owner, the first and a known one are not', async () => {
  const plain = await startServer()
  const mail = mailbox(plain)
  const on = (agent: string) => ({ headers: { 'user-agent': agent } })
  const json = { email: 'fay@x.test', password }
  const notices = () =>
    mail.mails('fay@x.test').flatMap(({ text }) => /Your .* new device \(.*\)\./.exec(text.replace(/\s+/g, ' ')) ?? [])
  const firefox = 'Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0'
  await plain.call('POST /api/auth/register', { json, ...on(firefox) })
  const known = (count: number) =>
    eventually(async () => {
      const [{ n }] = await plain.sql('select count(*) as n from svc.known_devices')
      assert.equal(Number(n), count)
    })
  await known(1)
  await plain.call('POST /api/auth/login', { json, ...on(firefox.replaceAll('130', '131')) })
  await plain.call('POST /api/auth/login', { json, ...on('Mozilla/5.0 (iPhone; CPU) Version/17 Safari/604.1') })
  const told = 'Your Savanna account was signed in to from a new device (Safari iPhone, 127.0.0.1).'
  await eventually(() => assert.deepEqual(notices(), [told]))
  await known(2)
  await plain.sql(`update svc.known_devices set seen_at = now() - interval '91 days'`)
  await plain.call('POST /api/auth/login', { json, ...on(firefox) })
  await eventually(() => assert.equal(notices().length, 2))
})
