import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mailbox } from '../../../../test/fakes/mailbox.ts'
import { startServer } from '../../../../test/kit/kit.ts'

const provider = (name: string) => ({
  [`auth.oauth.${name}.enabled`]: true,
  [`auth.oauth.${name}.client_id`]: 'us',
  [`auth.oauth.${name}.client_secret`]: 's'.repeat(40),
})
const config = {
  ...provider('google'),
  ...provider('github'),
  'auth.oauth_redirect_url': 'https://app.x.test/in',
  'auth.magic_link_enabled': true,
}
const api = await startServer({ config })

const start = (server = api, name = 'github', cookie?: string) =>
  server.call(`GET /api/auth/oauth/${name}`, { headers: cookie === undefined ? {} : { cookie } })
const stateOf = (answer: Awaited<ReturnType<typeof start>>) =>
  new URL(answer.headers.get('location') ?? '').searchParams.get('state')

test('a sign-in begins without asking the built-in providers anything', async () => {
  for (const [name, host] of [
    ['google', 'accounts.google.com'],
    ['github', 'github.com'],
  ] as const) {
    const answer = await start(api, name)
    assert.equal(answer.status, 302, answer.text)
    const url = new URL(answer.headers.get('location') ?? '')
    assert.equal(url.host, host)
    assert.equal(url.searchParams.get('code_challenge_method'), 'S256')
    assert.equal(url.searchParams.get('response_type'), 'code')
  }
})

test('a state is good only in the browser that began with it', async () => {
  const attackers = await start()
  const callback = (cookie?: string) =>
    api.call(`GET /api/auth/oauth/github/callback?code=x&state=${stateOf(attackers)}`, {
      headers: cookie === undefined ? {} : { cookie },
    })
  const victims = (await start()).headers.get('set-cookie')?.split(';')[0] ?? ''
  for (const cookie of [undefined, '', 'svc_oauth_browser=', victims, victims.replace('svc_', '__Host-svc_')]) {
    const { status, body } = await callback(cookie)
    assert.deepEqual([status, body.message], [400, 'invalid or expired OAuth state'], cookie)
  }
  // The state is still there for its own browser; the provider cannot be reached from a test.
  const own = attackers.headers.get('set-cookie')?.split(';')[0] ?? ''
  assert.notEqual((await callback(`a=b; ${own}; c=d`)).body.message, 'invalid or expired OAuth state')
})

test('the cookie is closed to scripts and other sites, and two tabs share it', async () => {
  const first = await start()
  assert.match(
    first.headers.get('set-cookie') ?? '',
    /^svc_oauth_browser=[\w-]{43}; Path=\/api\/auth\/oauth; Max-Age=600; HttpOnly; SameSite=Lax$/,
  )
  const own = first.headers.get('set-cookie')?.split(';')[0] ?? ''
  assert.ok((await start(api, 'google', own)).headers.get('set-cookie')?.startsWith(`${own};`))
  const https = await startServer({ on: api, config: { ...config, 'server.public_base_url': 'https://api.x.test' } })
  assert.match(
    (await start(https)).headers.get('set-cookie') ?? '',
    /^__Host-svc_oauth_browser=[\w-]{43}; Path=\/; Secure; Max-Age=600; HttpOnly; SameSite=Lax$/,
  )
  const others = ['/health', '/api/auth/oauth/nowhere', '/api/auth/me'] as const
  for (const path of others) assert.equal((await api.call(`GET ${path}`)).headers.get('set-cookie'), null)
})

test('starts are limited per address', async () => {
  const limited = await startServer({ on: api, config: { ...config, 'rate_limit.login': '30/hour' } })
  const answers = await Promise.all(Array.from({ length: 50 }, () => start(limited)))
  assert.equal(answers.filter(({ status }) => status === 302).length, 30)
  assert.equal(answers.filter(({ status }) => status === 429).length, 20)
})

test('a magic link is good whatever stale token a client attaches', async () => {
  const mail = mailbox(api)
  const { token: ended, refreshToken } = await api.signUp('gone@x.test')
  await api.call('POST /api/auth/logout', { json: { refreshToken } })
  for (const [i, as] of [ended, 'a.b.c', 'f'.repeat(64), `svc_${'0'.repeat(48)}`].entries()) {
    await api.call('POST /api/auth/magic-link', { json: { email: 'linked@x.test' } })
    const token = await mail.token('linked@x.test', i + 1)
    assert.equal((await api.call('POST /api/auth/magic-link/confirm', { as, json: { token } })).status, 200, as)
  }
})
