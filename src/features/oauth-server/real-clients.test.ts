import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import * as oauth from 'oauth4webapi'
import * as client from 'openid-client'
import { authenticator } from '../../../test/fakes/authenticator.ts'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { startServer } from '../../../test/kit/kit.ts'

// Clients that others wrote, unmodified, and people who use a browser.

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true, 'auth.totp_enabled': true } })
const issuer = new URL(`http://localhost:${new URL(api.url).port}`)
const { user, token } = await api.signUp('ana@x.test')
await api.sql('create table notes (id int primary key); create table tasks (id int primary key)')
const PASSWORD = 'long enough password'

/** The application's own server, which the browser is sent back to. */
const landing = createServer((_request, response) => response.end('back'))
await new Promise<void>((resolve) => landing.listen(0, '127.0.0.1', resolve))
after(() => void landing.close())
const redirectUri = `http://127.0.0.1:${(landing.address() as AddressInfo).port}/cb`

const app = (await api.call('POST /api/admin/apps', { as: 'admin', json: { name: 'a', ownerUserId: user.id } })).body
async function register(clientType: 'confidential' | 'public', name: string) {
  const json = { appId: app.id, name, clientType, redirectUris: ['http://127.0.0.1/cb'], scopes: ['readwrite'] }
  const { body } = await api.call('POST /api/admin/oauth/clients', { as: 'admin', json })
  return { clientId: body.client.clientId as string, secret: body.clientSecret as string }
}

async function openInBrowser(url: URL) {
  const browser = await startBrowser()
  const page = await browser.newPage({ viewport: { width: 900, height: 700 } })
  page.setDefaultTimeout(15_000)
  await page.goto(url.href)
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click()
  const signIn = async () => {
    await page.getByLabel('Email').fill('ana@x.test')
    await page.getByLabel('Password').fill(PASSWORD)
    await press('Sign in')
  }
  const cameBack = async () => {
    await page.waitForURL((at) => at.pathname === '/cb')
    const at = new URL(page.url())
    await page.close()
    return at
  }
  return { page, press, signIn, cameBack }
}

test('openid-client completes code, refresh and revocation, through the page that people see', { skip }, async () => {
  const { clientId, secret } = await register('confidential', 'Lion Tracker')
  const options = { algorithm: 'oauth2' as const, execute: [client.allowInsecureRequests] }
  const config = await client.discovery(issuer, clientId, secret, undefined, options)
  const verifier = client.randomPKCECodeVerifier()
  const state = client.randomState()
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    scope: 'readwrite',
    state,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    allowed_tables: 'notes,tasks',
  })
  const { page, press, signIn, cameBack } = await openInBrowser(url)
  await signIn()
  await page.getByRole('heading', { name: 'Lion Tracker asks for access' }).waitFor()
  await page.getByText('read and change data as you').waitFor()
  await page.getByText('in these tables only: notes, tasks').waitFor()
  await page.getByText('not reach your files').waitFor()
  await press('Approve')
  const tokens = await client.authorizationCodeGrant(config, await cameBack(), {
    pkceCodeVerifier: verifier,
    expectedState: state,
  })
  assert.equal((await api.call('GET /api/auth/me', { as: tokens.access_token })).body.email, 'ana@x.test')
  const next = await client.refreshTokenGrant(config, tokens.refresh_token ?? '')
  assert.equal((await api.call('GET /api/auth/me', { as: next.access_token })).status, 200)
  await client.tokenRevocation(config, next.refresh_token ?? '')
  assert.equal((await api.call('GET /api/auth/me', { as: next.access_token })).status, 401)
  const own = await client.clientCredentialsGrant(config, { scope: 'readwrite' })
  assert.equal(own.refresh_token, undefined)
})

test('oauth4webapi as a public client; a second factor is asked for, and a denial is told', { skip }, async () => {
  const enrolled = await api.call('POST /api/auth/mfa/totp/enroll', { as: token })
  const phone = authenticator(enrolled.body.uri)
  await api.call('POST /api/auth/mfa/totp/enroll/confirm', { as: token, json: { code: phone.code() } })
  await api.sql('update svc.mfa_factors set last_step = -1')

  const { clientId } = await register('public', 'Pride')
  const http = { [oauth.allowInsecureRequests]: true }
  const server = await oauth.processDiscoveryResponse(
    issuer,
    await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...http }),
  )
  const self: oauth.Client = { client_id: clientId }
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  const url = new URL(server.authorization_endpoint ?? '')
  const parameters = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    scope: 'readwrite',
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)

  const denying = await openInBrowser(url)
  await denying.signIn()
  await denying.page.getByLabel('Code').fill(phone.code())
  await denying.press('Continue')
  await denying.press('Deny')
  const denied = await denying.cameBack()
  assert.throws(() => oauth.validateAuthResponse(server, self, denied, state), /access_denied|authorization response/)

  await api.sql('update svc.mfa_factors set last_step = -1')
  const { page, press, signIn, cameBack } = await openInBrowser(url)
  await signIn()
  await page.getByLabel('Code').fill(phone.code())
  await press('Continue')
  await page.getByText('in all tables that you can reach').waitFor()
  await press('Approve')
  const answer = oauth.validateAuthResponse(server, self, await cameBack(), state)
  const response = await oauth.authorizationCodeGrantRequest(
    server,
    self,
    oauth.None(),
    answer,
    redirectUri,
    verifier,
    http,
  )
  const tokens = await oauth.processAuthorizationCodeResponse(server, self, response)
  assert.match(tokens.access_token, /^svc_at_/)
  const refreshed = await oauth.refreshTokenGrantRequest(server, self, oauth.None(), tokens.refresh_token ?? '', http)
  assert.match((await oauth.processRefreshTokenResponse(server, self, refreshed)).access_token, /^svc_at_/)
  await oauth.processRevocationResponse(
    await oauth.revocationRequest(server, self, oauth.None(), tokens.refresh_token ?? '', http),
  )

  const { clientId: robotId, secret } = await register('confidential', 'Robot')
  const robot: oauth.Client = { client_id: robotId }
  const auth = oauth.ClientSecretBasic(secret)
  const own = await oauth.clientCredentialsGrantRequest(server, robot, auth, { scope: 'readwrite' }, http)
  assert.match((await oauth.processClientCredentialsResponse(server, robot, own)).access_token, /^svc_at_/)
})

test('the page cannot be framed, leaks no address, and shows what is wrong', { skip }, async () => {
  const { headers } = await api.call('GET /oauth/consent')
  assert.equal(headers.get('x-frame-options'), 'DENY')
  assert.match(headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/)
  assert.equal(headers.get('referrer-policy'), 'no-referrer')
  await api.sql('delete from svc.mfa_factors')
  const { page, signIn } = await openInBrowser(new URL('/oauth/consent?client_id=nobody', issuer))
  await signIn()
  await page.getByRole('heading', { name: 'This request cannot be granted' }).waitFor()
  await page.getByText('unknown client').waitFor()
})
