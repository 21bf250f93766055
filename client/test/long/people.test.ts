import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { startIssuer } from '../../../test/fakes/oidc-issuer.ts'
import { skip, startBrowser, VirtualAuthenticator } from '../../../test/kit/browser.ts'
import { freePort } from '../../../test/kit/free-port.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { scriptOf, startPage } from './page.ts'

let api: InProcessServer
let browser: Browser
let address: string
let issuer: Awaited<ReturnType<typeof startIssuer>>
before(async () => {
  if (skip) return
  const port = await freePort()
  const server = `http://localhost:${port}`
  address = await startPage(
    await scriptOf(`
      import { createClient } from '../../src/main.ts'
      globalThis.svc = createClient(${JSON.stringify(server)})`),
  )
  issuer = await startIssuer([
    { client_id: 'svc', client_secret: 'secret', redirect_uris: [`${server}/api/auth/oauth/acme/callback`] },
  ])
  api = await startServer({
    config: {
      'server.port': port,
      'server.public_base_url': server,
      'auth.webauthn_enabled': true,
      'auth.totp_enabled': true,
      'auth.oauth_return_to_allowlist': [new URL(address).host],
      'auth.oauth.acme.enabled': true,
      'auth.oauth.acme.client_id': 'svc',
      'auth.oauth.acme.client_secret': 'secret',
      'auth.oauth.acme.issuer': issuer.issuer,
    },
  })
  browser = await startBrowser()
})

async function open(): Promise<{ page: Page; context: BrowserContext }> {
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(address)
  return { page, context }
}

test('a provider signs in, on the page that asked for it and on no other', { skip, timeout: 60_000 }, async () => {
  const { page } = await open()
  issuer.signsIn({ sub: 'ana', email: 'ana@x.test', email_verified: true })
  await page.evaluate(`svc.auth.oauth('acme', { redirectTo: location.href + '?view=1' })`)
  await page.waitForURL(/view=1/)
  const signedIn = await page.evaluate('svc.auth.returned()')
  assert.equal((signedIn as { user: { email: string } }).user.email, 'ana@x.test')
  assert.equal(await page.evaluate('location.href'), `${address}?view=1`)
  assert.equal(await page.evaluate('svc.auth.returned()'), null)

  // Somebody sends Ben a link that would sign him in as Ana.
  const { token, refreshToken } = (await page.evaluate('svc.auth.session')) as Record<string, string>
  const ben = await open()
  for (const query of ['', '?svc_state=guess']) {
    await ben.page.goto(`${address}${query}#token=${token}&refreshToken=${refreshToken}`)
    assert.equal(await ben.page.evaluate('svc.auth.returned()'), null)
    assert.equal(await ben.page.evaluate('svc.auth.session'), null)
  }
})

test('a passkey is added, listed and signs in', { skip, timeout: 60_000 }, async () => {
  // Passkeys belong to the origin of the server.
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(`${api.app.url.replace('127.0.0.1', 'localhost')}/health`)
  await VirtualAuthenticator.of(context, page)
  await page.addScriptTag({
    content: await scriptOf(
      `import { createClient } from '../../src/main.ts'; globalThis.svc = createClient(location.origin)`,
    ),
  })
  await page.evaluate(`svc.auth.register({ email: 'key@x.test', password: 'long enough password' })`)
  await page.evaluate(`svc.auth.passkey.add({ name: 'laptop' })`)
  const [passkey] = (await page.evaluate('svc.auth.passkey.list()')) as { display_name: string }[]
  assert.equal(passkey?.display_name, 'laptop')
  await page.evaluate('svc.auth.logout()')
  for (const by of [{}, { email: 'key@x.test' }]) {
    const { user } = (await page.evaluate(`svc.auth.passkey.login(${JSON.stringify(by)})`)) as {
      user: { email: string }
    }
    assert.equal(user.email, 'key@x.test')
    await page.evaluate('svc.auth.logout()')
  }
  // With a password the passkey is the second factor.
  const methods = await page.evaluate(`
    svc.auth.login({ email: 'key@x.test', password: 'long enough password' }).then(async ({ mfa }) => {
      globalThis.mfa = mfa
      return [mfa.methods, svc.auth.session]
    })`)
  assert.deepEqual(methods, [['passkey'], null])
  await page.evaluate('mfa.passkey()')
  await eventually(async () => assert.equal(await page.evaluate('svc.auth.session.user.email'), 'key@x.test'))
})
