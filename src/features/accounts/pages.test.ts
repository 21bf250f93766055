import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({
  config: { 'auth.magic_link_enabled': true, 'auth.oauth_redirect_url': 'https://app.x.test/?a="><script>' },
})

test('the pages of mail links keep the token to themselves', async () => {
  for (const page of ['verify', 'reset', 'magic-link'] as const) {
    const { status, text, headers } = await api.call(`GET /auth/${page}?token=secret-token`)
    assert.equal(status, 200)
    assert.match(headers.get('content-type') ?? '', /^text\/html/)
    assert.equal(headers.get('referrer-policy'), 'no-referrer')
    assert.equal(headers.get('cache-control'), 'no-store')
    assert.equal(headers.get('x-frame-options'), 'DENY')
    assert.ok(!text.includes('secret-token') && !text.includes('"><script>'))

    const policy = headers.get('content-security-policy') ?? ''
    assert.match(policy, /default-src 'none'/)
    assert.ok(!policy.includes('unsafe'))
    for (const [tag, directive] of [
      ['script', 'script-src'],
      ['style', 'style-src'],
    ] as const) {
      const inline = new RegExp(`<${tag}[^>]*>([\\s\\S]*?)</${tag}>`).exec(text)?.[1] ?? ''
      const hash = createHash('sha256').update(inline).digest('base64')
      assert.ok(policy.includes(`${directive} 'sha256-${hash}'`), directive)
    }
  }
})

test('opening a page spends nothing', async () => {
  const before = await api.sql('select count(*) from svc.mail_tokens')
  await api.signUp('scanner@x.test')
  await api.call('GET /auth/verify?token=x')
  const after = await api.sql('select count(*) from svc.mail_tokens')
  assert.equal(Number(after[0].count), Number(before[0].count) + 1)
})

/** Runs a page's own script with the few browser objects it touches. */
async function press(page: `/${string}`, token: string, typed?: string) {
  const { text } = await api.call(`GET ${page}?token=${token}`)
  const data = (name: string) => new RegExp(`data-${name}="([^"]*)"`).exec(text)?.[1] ?? ''
  const seen = { replaced: '', left: '', status: '', formGone: false }
  let submit: (event: { preventDefault(): void }) => Promise<void> = async () => {}
  const button = { disabled: false }
  const form = {
    addEventListener: (_name: string, heard: typeof submit) => {
      submit = heard
    },
    querySelector: (what: string) => (what === 'button' ? button : typed === undefined ? null : { value: typed }),
    remove: () => {
      seen.formGone = true
    },
  }
  const status = {
    set textContent(said: string) {
      seen.status = said
    },
  }
  runInNewContext(/<script[^>]*>([\s\S]*?)<\/script>/.exec(text)?.[1] ?? '', {
    URLSearchParams,
    location: { search: `?token=${token}`, pathname: page, replace: (to: string) => (seen.left = to) },
    history: { replaceState: (_state: unknown, _title: string, to: string) => (seen.replaced = to) },
    document: {
      body: { dataset: { post: data('post'), done: data('done'), returnsTo: data('returns-to') } },
      querySelector: (what: string) => (what === 'form' ? form : status),
    },
    fetch: (path: string, options: RequestInit) => fetch(api.url + path, options),
  })
  assert.deepEqual([seen.replaced, seen.status], [page, ''])
  await submit({ preventDefault: () => {} })
  return seen
}

test('a press of the button verifies, resets and signs in', async () => {
  const mail = mailbox(api)
  await api.signUp('press@x.test')
  const verified = await press('/auth/verify', await mail.token('press@x.test'))
  assert.deepEqual([verified.status, verified.formGone], ['Your email is verified.', true])
  const again = await press('/auth/verify', 'spent')
  assert.deepEqual([again.status, again.formGone], ['invalid or expired verification token', false])

  await api.call('POST /api/auth/password-reset', { json: { email: 'press@x.test' } })
  const reset = await press('/auth/reset', await mail.token('press@x.test', 2), 'brand new password')
  assert.match(reset.status, /^Your password is changed/)
  const login = await api.call('POST /api/auth/login', {
    json: { email: 'press@x.test', password: 'brand new password' },
  })
  assert.equal(login.status, 200)

  await api.call('POST /api/auth/magic-link', { json: { email: 'press@x.test' } })
  const { left } = await press('/auth/magic-link', await mail.token('press@x.test', 3))
  assert.ok(left.startsWith('https://app.x.test/'))
  const fragment = new URLSearchParams(left.split('#')[1])
  assert.deepEqual([...fragment.keys()], ['token', 'refreshToken'])
  assert.equal((await api.call('GET /api/auth/me', { as: fragment.get('token') ?? '' })).status, 200)
})
