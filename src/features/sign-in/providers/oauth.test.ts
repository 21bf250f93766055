import assert from 'node:assert/strict'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { mailbox } from '../../../../test/fakes/mailbox.ts'
import { startIssuer } from '../../../../test/fakes/oidc-issuer.ts'
import { freePort } from '../../../../test/kit/free-port.ts'
import { startServer } from '../../../../test/kit/kit.ts'

const port = await freePort()
const base = `http://localhost:${port}`
const client = { client_id: 'savanna', client_secret: 's'.repeat(40) }
const stranger = { client_id: 'stranger', client_secret: 't'.repeat(40) }
const issuer = await startIssuer([
  { ...client, redirect_uris: [`${base}/api/auth/oauth/corp/callback`] },
  { ...stranger, redirect_uris: ['https://stranger.test/cb'] },
])
const hub = await startHub()

const config = {
  'server.port': port,
  'auth.anonymous_auth_enabled': true,
  'auth.oauth_redirect_url': 'https://app.x.test/in',
  'auth.oauth_return_to_allowlist': ['other.x.test'],
  'auth.oauth.corp.enabled': true,
  'auth.oauth.corp.client_id': client.client_id,
  'auth.oauth.corp.client_secret': client.client_secret,
  'auth.oauth.corp.issuer': issuer.issuer,
  'auth.oauth.github.enabled': true,
  'auth.oauth.github.client_id': 'hubid',
  'auth.oauth.github.client_secret': 'hubsecret',
  'auth.oauth.github.authorize_url': `${hub.url}/authorize`,
  'auth.oauth.github.token_url': `${hub.url}/token`,
  'auth.oauth.github.userinfo_url': `${hub.url}/user`,
}
const api = await startServer({ config })
const other = await startServer({ on: api, config: { ...config, 'server.port': 0, 'server.public_base_url': base } })
const mail = mailbox(api)

/** GitHub as far as a sign-in sees it. */
async function startHub() {
  const state = {
    user: { id: 1, login: 'ana', email: null as string | null } as Record<string, unknown> | string,
    emails: [] as { email: string; primary: boolean; verified: boolean }[],
    tokens: new Map<string, string>([
      ['good', 'hubid'],
      ['foreign', 'another app'],
    ]),
    asked: [] as URLSearchParams[],
    status: 200,
    url: '',
  }
  const read = async (request: IncomingMessage) => {
    let text = ''
    for await (const chunk of request) text += chunk
    return text
  }
  const server = createServer(async (request, response) => {
    const text = await read(request)
    const path = new URL(request.url ?? '/', 'http://x').pathname
    const json = (status: number, body: unknown) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(typeof body === 'string' ? body : JSON.stringify(body))
    const bearer = (request.headers.authorization ?? '').replace('Bearer ', '')
    if (state.status !== 200) return json(state.status, { message: 'broken' })
    if (path === '/token') {
      state.asked.push(new URLSearchParams(text))
      return json(
        200,
        state.asked.at(-1)?.get('code') === 'right'
          ? { access_token: 'good', token_type: 'bearer' }
          : { error: 'bad_verification_code' },
      )
    }
    if (path === '/applications/hubid/token') {
      const ours = state.tokens.get(JSON.parse(text).access_token) === 'hubid'
      return ours
        ? json(200, { app: { client_id: 'hubid' } })
        : json(404, { message: 'Not Found', documentation_url: 'https://docs' })
    }
    if (!state.tokens.has(bearer)) return json(401, { message: 'Bad credentials', documentation_url: 'https://docs' })
    return json(200, path === '/user/emails' ? state.emails : state.user)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  after(() => void server.close().closeAllConnections())
  state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return state
}

const fragmentOf = (location: string | null) => new URLSearchParams(new URL(location ?? '').hash.slice(1))
/** One browser, which keeps its cookie. */
let cookie = ''
const visit = async (path: `/${string}`, server = api) => {
  const answer = await server.call(`GET ${path}`, { headers: cookie === '' ? {} : { cookie } })
  cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? cookie
  return answer
}
const start = async (provider: string, query = '') => {
  const { status, headers } = await visit(`/api/auth/oauth/${provider}${query}`)
  assert.equal(status, 302)
  return new URL(headers.get('location') ?? '')
}
const pathOf = (url: string) => url.slice(url.indexOf('/api/')) as `/${string}`

/** The whole way: our server, the issuer, our callback. */
async function signInAtCorp(query = '') {
  const callback = await issuer.browse((await start('corp', query)).href)
  return visit(pathOf(callback))
}
async function signInAtHub(code = 'right') {
  const { searchParams } = await start('github')
  return visit(`/api/auth/oauth/github/callback?code=${code}&state=${searchParams.get('state')}`)
}
async function userOf(answer: Awaited<ReturnType<typeof signInAtCorp>>) {
  assert.equal(answer.status, 302, answer.text)
  const token = fragmentOf(answer.headers.get('location')).get('token') ?? ''
  return (await api.call('GET /api/auth/me', { as: token })).body
}

test('somebody new signs in through a real OpenID provider', async () => {
  const asked = await start('corp')
  const parameters = Object.fromEntries(asked.searchParams)
  assert.equal(parameters['redirect_uri'], `${base}/api/auth/oauth/corp/callback`)
  assert.equal(parameters['code_challenge_method'], 'S256')
  assert.equal(parameters['scope'], 'openid email profile')
  assert.ok(parameters['state'] && parameters['nonce'] && parameters['code_challenge'])

  issuer.signsIn({ sub: 'corp-ana', email: 'Ana@corp.test', email_verified: true })
  const answer = await signInAtCorp()
  assert.equal(answer.status, 302)
  const location = new URL(answer.headers.get('location') ?? '')
  assert.equal(location.origin + location.pathname, 'https://app.x.test/in')
  assert.deepEqual([...fragmentOf(location.href).keys()], ['token', 'refreshToken'])
  assert.equal(answer.headers.get('referrer-policy'), 'no-referrer')
  const user = await userOf(answer)
  assert.deepEqual([user.email, user.emailVerified, user.is_anonymous], ['ana@corp.test', true, false])

  issuer.signsIn({ sub: 'corp-ana', email: 'renamed@corp.test', email_verified: true })
  assert.equal((await userOf(await signInAtCorp('?redirect_to=https://other.x.test/back'))).id, user.id)
})

test('a user with a second factor comes back with an MFA token', async () => {
  issuer.signsIn({ sub: 'corp-mfa', email: 'mfa@corp.test', email_verified: true })
  const user = await userOf(await signInAtCorp())
  await api.sql(
    `insert into svc.mfa_factors (id, user_id, method, confirmed_at) values (gen_random_uuid(), $1, 'email', now())`,
    [user.id],
  )
  const fragment = fragmentOf((await signInAtCorp()).headers.get('location'))
  assert.deepEqual([...fragment.keys()], ['mfa_pending', 'mfa_token'])
  const as = fragment.get('mfa_token') ?? ''
  const { challenge_id } = (await api.call('POST /api/auth/mfa/email/challenge', { as })).body
  const json = { challenge_id, code: await mail.mailedCode('mfa@corp.test') }
  const { status, body } = await api.call('POST /api/auth/mfa/email/verify', { as, json })
  assert.deepEqual([status, body.user.id], [200, user.id])
  assert.deepEqual(JSON.parse(Buffer.from(body.token.split('.')[1], 'base64url').toString()).amr, ['oauth', 'email'])
})

test('a callback is good once, for its provider and its server-side state', async () => {
  issuer.signsIn({ sub: 'corp-once', email: 'once@corp.test', email_verified: true })
  const callback = pathOf(await issuer.browse((await start('corp')).href))
  const race = await Promise.all(Array.from({ length: 10 }, (_, i) => visit(callback, i % 2 ? api : other)))
  assert.equal(race.filter(({ status }) => status === 302).length, 1)
  for (const { status, body } of race.filter((answer) => answer.status !== 302)) {
    assert.deepEqual([status, body.message], [400, 'invalid or expired OAuth state'])
  }
  const state = (await start('corp')).searchParams.get('state')
  for (const [path, message] of [
    [`github/callback?code=right&state=${state}`, 'invalid or expired OAuth state'],
    ['corp/callback?code=x', 'invalid or expired OAuth state'],
    ['corp/callback?code=x&state=made-up', 'invalid or expired OAuth state'],
    [`corp/callback?state=${state}`, 'missing authorization code'],
    [`corp/callback?code=x&state=${state}`, 'invalid or expired OAuth state'],
    ['corp/callback?error=access_denied&state=x', 'OAuth authentication was denied or failed'],
    ['nowhere/callback?code=x&state=x', 'OAuth provider "nowhere" not configured'],
    ['nowhere', 'OAuth provider "nowhere" not configured'],
    ['google', 'OAuth provider "google" not configured'],
    ['constructor', 'OAuth provider "constructor" not configured'],
    ['corp?redirect_to=https://evil.test/', 'invalid redirect_to'],
    ['corp?redirect_to=//evil.test', 'invalid redirect_to'],
  ]) {
    const { status, body } = await visit(`/api/auth/oauth/${path}`)
    assert.deepEqual([status, body.message], [400, message])
  }
  const old = (await start('corp')).searchParams.get('state')
  await api.sql(`update svc.oauth_states set expires_at = now() - interval '1 second'`)
  assert.equal((await visit(`/api/auth/oauth/corp/callback?code=x&state=${old}`)).status, 400)
  const stale = (await start('corp')).searchParams.get('state')
  const wrongCode = await visit(
    `/api/auth/oauth/corp/callback?code=wrong&state=${stale}&iss=${encodeURIComponent(issuer.issuer)}`,
  )
  assert.deepEqual([wrongCode.status, wrongCode.body.message], [502, 'failed to authenticate with provider'])
})

test('a callback of another issuer is refused', async () => {
  issuer.signsIn({ sub: 'corp-mix', email: 'mix@corp.test', email_verified: true })
  const callback = new URL(await issuer.browse((await start('corp')).href))
  callback.searchParams.set('iss', 'https://evil.test')
  const { status, body } = await visit(pathOf(callback.href))
  assert.deepEqual([status, body.message], [400, 'OAuth authentication was denied or failed'])
})

test('a host header does not move the callback', async () => {
  const { headers } = await api.call('GET /api/auth/oauth/corp', {
    headers: { host: 'evil.test', 'x-forwarded-host': 'evil.test', 'x-forwarded-proto': 'https' },
  })
  const asked = new URL(headers.get('location') ?? '')
  assert.equal(asked.searchParams.get('redirect_uri'), `${base}/api/auth/oauth/corp/callback`)
})

test('a vouched address takes over an account nobody proved, and joins one that is proven', async () => {
  const attacker = await api.signUp('victim@corp.test')
  issuer.signsIn({ sub: 'corp-victim', email: 'victim@corp.test', email_verified: true })
  const owner = await userOf(await signInAtCorp())
  assert.deepEqual([owner.id, owner.emailVerified], [attacker.user.id, true])
  assert.equal((await api.call('GET /api/auth/me', { as: attacker.token })).status, 401)
  const password = 'long enough password'
  assert.equal((await api.call('POST /api/auth/login', { json: { email: 'victim@corp.test', password } })).status, 401)

  const proven = await api.signUp('proven@corp.test')
  await api.call('POST /api/auth/verify', { json: { token: await mail.token('proven@corp.test') } })
  issuer.signsIn({ sub: 'corp-proven', email: 'proven@corp.test', email_verified: true })
  assert.equal((await userOf(await signInAtCorp())).id, proven.user.id)
  assert.equal((await api.call('GET /api/auth/me', { as: proven.token })).status, 200)
})

test('an address the provider does not vouch for joins nothing', async () => {
  await api.signUp('unvouched@corp.test')
  issuer.signsIn({ sub: 'corp-unvouched', email: 'unvouched@corp.test', email_verified: false })
  const refused = await signInAtCorp()
  assert.deepEqual([refused.status, refused.body.message], [409, 'email already belongs to another account'])

  issuer.signsIn({ sub: 'corp-squat', email: 'squat@corp.test', email_verified: false })
  const squatter = await userOf(await signInAtCorp())
  assert.equal(squatter.emailVerified, false)
  hub.user = { id: 77, login: 'owner' }
  hub.emails = [{ email: 'squat@corp.test', primary: true, verified: true }]
  const owner = await userOf(await signInAtHub())
  assert.deepEqual([owner.id, owner.emailVerified], [squatter.id, true])
  issuer.signsIn({ sub: 'corp-squat', email: 'squat@corp.test', email_verified: false })
  assert.equal((await signInAtCorp()).status, 409)
})

test('GitHub: the primary address of the list counts, not the one on the profile', async () => {
  hub.user = { id: 42, login: 'bo', email: 'shown@hub.test' }
  hub.emails = [
    { email: 'second@hub.test', primary: false, verified: true },
    { email: 'Primary@hub.test', primary: true, verified: true },
  ]
  const user = await userOf(await signInAtHub())
  assert.deepEqual([user.email, user.emailVerified], ['primary@hub.test', true])
  const asked = hub.asked.at(-1)
  assert.equal(asked?.get('redirect_uri'), `${base}/api/auth/oauth/github/callback`)
  assert.equal(asked?.get('client_secret'), 'hubsecret')
  assert.match(asked?.get('code_verifier') ?? '', /^[\w-]{43}$/)

  hub.user = { id: 43, login: 'noaddress' }
  hub.emails = []
  assert.equal((await userOf(await signInAtHub())).email, '')
})

test('a provider that fails is a bad gateway', async () => {
  for (const [code, status] of [
    ['wrong', 200],
    ['right', 500],
    ['right', 404],
  ] as const) {
    hub.status = status
    const answer = await signInAtHub(code).finally(() => {
      hub.status = 200
    })
    assert.deepEqual([answer.status, answer.body.message], [502, 'failed to authenticate with provider'])
  }
})

test('ids of a provider keep all their digits: neighbours are two people', async () => {
  hub.emails = []
  const ids = ['1234567890199659640', '1234567890199659641', '9007199254740991', '9007199254740993']
  const users = []
  for (const id of ids) {
    hub.user = `{"id":${id},"login":"x"}`
    users.push(await userOf(await signInAtHub()))
  }
  assert.equal(new Set(users.map(({ id }) => id)).size, ids.length)
  const kept = await api.sql(`select subject from svc.identities where user_id = any($1) order by created_at`, [
    users.map(({ id }) => id),
  ])
  assert.deepEqual(
    kept.map(({ subject }) => subject),
    ids,
  )
  const token = (await api.call('POST /api/auth/anonymous')).body.token
  const json = { provider: 'github', access_token: 'good' }
  hub.user = '{"id":1234567890199659642,"login":"x"}'
  assert.equal((await api.call('POST /api/auth/link/oauth', { as: token, json })).status, 200)
  for (const id of ['1.5', '1e300', 'true', '{}']) {
    hub.user = `{"id":${id},"login":"x"}`
    assert.equal((await signInAtHub()).status, 502, id)
  }
})

test('a disabled account is refused as one that the provider denied', async () => {
  hub.user = { id: 700, login: 'disabled' }
  hub.emails = [{ email: 'disabled@hub.test', primary: true, verified: true }]
  const { id } = await userOf(await signInAtHub())
  assert.equal((await api.call(`POST /api/admin/users/${id}/disable`, { as: 'admin' })).status, 204)
  const known = await signInAtHub()
  assert.deepEqual([known.status, known.body.error], [400, 'provider_denied'])
  hub.user = { id: 701, login: 'another account of the same address' }
  const byAddress = await signInAtHub()
  assert.deepEqual([byAddress.status, byAddress.body.error], [400, 'provider_denied'])
  assert.deepEqual(await api.sql(`select from svc.identities where subject = '701'`), [])
  assert.equal((await api.call(`POST /api/admin/users/${id}/enable`, { as: 'admin' })).status, 204)
  assert.equal((await userOf(await signInAtHub())).id, id)
})

test('without a place to go back to the callback answers with the tokens', async () => {
  const bare = await startServer({
    on: api,
    config: { ...config, 'server.port': 0, 'server.public_base_url': base, 'auth.oauth_redirect_url': '' },
  })
  issuer.signsIn({ sub: 'corp-bare', email: 'bare@corp.test', email_verified: true })
  const { headers } = await visit('/api/auth/oauth/corp', bare)
  const callback = await issuer.browse(headers.get('location') ?? '')
  const { status, body } = await visit(pathOf(callback), bare)
  assert.equal(status, 200)
  assert.deepEqual([Object.keys(body).sort(), body.user.email], [['refreshToken', 'token', 'user'], 'bare@corp.test'])
})

test('parallel first sign-ins of one person make one account', async () => {
  hub.user = { id: 99, login: 'twice' }
  hub.emails = [{ email: 'twice@hub.test', primary: true, verified: true }]
  const answers = await Promise.all(Array.from({ length: 6 }, () => signInAtHub()))
  const users = await Promise.all(answers.map(userOf))
  assert.equal(new Set(users.map(({ id }) => id)).size, 1)
})

test('an anonymous account links a provider by its access token', async () => {
  const link = async (json: unknown, as?: string) => {
    const token = as ?? (await api.call('POST /api/auth/anonymous')).body.token
    return api.call('POST /api/auth/link/oauth', { as: token, json })
  }
  const before = (await api.call('POST /api/auth/anonymous')).body
  hub.user = { id: 500, login: 'linker' }
  hub.emails = [{ email: 'linker@hub.test', primary: true, verified: true }]
  const linked = await link({ provider: 'github', access_token: 'good' }, before.token)
  assert.equal(linked.status, 200, linked.text)
  const { user } = linked.body
  assert.deepEqual(
    [user.id, user.email, user.emailVerified, user.is_anonymous],
    [before.user.id, 'linker@hub.test', true, false],
  )
  assert.ok(user.linked_at)
  assert.equal((await api.call('GET /api/auth/me', { as: before.token })).status, 401)
  assert.equal((await userOf(await signInAtHub())).id, user.id)

  const twice = await link({ provider: 'github', access_token: 'good' })
  assert.deepEqual([twice.status, twice.body.message], [409, 'email already belongs to another account'])
  const full = await link({ provider: 'github', access_token: 'good' }, linked.body.token)
  assert.deepEqual([full.status, full.body.message], [403, 'only anonymous accounts can link credentials'])
  hub.user = { id: 501, login: 'else' }
  hub.emails = []
  for (const [json, status, message] of [
    [{}, 400, 'provider is required'],
    [{ provider: 'github' }, 400, 'access_token is required'],
    [{ provider: 'x', access_token: 'good' }, 400, 'OAuth provider "x" not configured'],
    [{ provider: ['github'], access_token: 'good' }, 400, 'provider must be a string'],
    [{ provider: 'github', access_token: 7 }, 400, 'access_token must be a string'],
    [{ provider: 'github', access_token: 'foreign' }, 400, 'access token was issued to another client'],
    [{ provider: 'github', access_token: 'expired' }, 502, 'failed to authenticate with provider'],
    [{ provider: 'corp', access_token: 'made up' }, 502, 'failed to authenticate with provider'],
  ] as const) {
    const answer = await link(json)
    assert.deepEqual([answer.status, answer.body.message], [status, message])
  }
  hub.status = 500
  assert.equal((await link({ provider: 'github', access_token: 'good' })).status, 502)
  hub.status = 200
  assert.equal((await api.call('POST /api/auth/link/oauth', { json: {} })).status, 401)
})
