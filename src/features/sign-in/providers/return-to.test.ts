import assert from 'node:assert/strict'
import { test } from 'node:test'
import { returnTo } from './return-to.ts'

const config = {
  oauth_redirect_url: 'https://app.test/signed-in?x=1',
  oauth_return_to_allowlist: ['other.test', 'ported.test:8443', 'localhost'],
}

test('places the operator named are accepted, without their fragment', () => {
  const good: [string | undefined, string][] = [
    [undefined, 'https://app.test/signed-in?x=1'],
    ['', 'https://app.test/signed-in?x=1'],
    ['https://app.test/deep?a=b#token=evil', 'https://app.test/deep?a=b'],
    ['/welcome', 'https://app.test/welcome'],
    ['https://other.test/x', 'https://other.test/x'],
    ['https://OTHER.test:444/x', 'https://other.test:444/x'],
    ['https://ported.test:8443/x', 'https://ported.test:8443/x'],
    ['http://localhost:3000/x', 'http://localhost:3000/x'],
  ]
  for (const [asked, expected] of good) assert.equal(returnTo(asked, config), expected)
})

test('every other place is refused', () => {
  const bad = [
    'https://evil.test/',
    '//evil.test/',
    '/\\evil.test',
    '\\\\evil.test',
    'https://other.test@evil.test/',
    'https://user@other.test/',
    'https://other.test.evil.test/',
    'https://evil-other.test/',
    'http://other.test/',
    'javascript:alert(1)',
    'data:text/html,x',
    'https:evil.test',
    'https://ported.test/',
    'https://ported.test:1/',
    'https://other.test\t.evil.test/',
    'https://other.test\n/',
    ' https://other.test/',
    'https://оther.test/',
    'other.test',
    'ftp://other.test/',
    'http://127.0.0.1:1/',
    'https://',
    '/\tevil',
    `https://other.test/${'a'.repeat(3000)}`,
  ]
  for (const asked of bad) assert.throws(() => returnTo(asked, config), /invalid redirect_to/, asked)
})

test('without a configured address a path leads nowhere', () => {
  const bare = { oauth_redirect_url: '', oauth_return_to_allowlist: [] }
  assert.equal(returnTo(undefined, bare), '')
  assert.throws(() => returnTo('/welcome', bare), /invalid redirect_to/)
})
