import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emailOf, isEmail, normaliseEmail } from './email-address.ts'

test('spellings of one address are one address', () => {
  for (const spelling of ['ana@x.test', ' Ana@X.Test ', 'ANA@X.TEST', '\tana@x.test\n']) {
    assert.equal(normaliseEmail(spelling), 'ana@x.test')
  }
  assert.equal(normaliseEmail('ÉVA@x.test'), 'éva@x.test')
})

test('look-alikes stay other addresses', () => {
  for (const other of ['\u212Aim@x.test', 'ana+tag@x.test', 'a\u0131na@x.test', 'ana@\uFF58.test', 'an\u0430@x.test']) {
    assert.notEqual(normaliseEmail(other), 'ana@x.test')
    assert.notEqual(normaliseEmail(other), 'kim@x.test')
  }
})

test('what could not be written to is refused', () => {
  const bad = [
    'ana',
    'ana@',
    '@x.test',
    'ana@x',
    'a b@x.test',
    'ana@x..test',
    'ana@x.test.',
    'ana@.test',
    'ana@@x.test',
    'ana@x.test\r\nBcc: b@x.test',
    'Ana <ana@x.test>',
    'ana@x.test,bo@x.test',
    '"ana"@x.test',
    'ana@[127.0.0.1]',
    `${'a'.repeat(65)}@x.test`,
    `a@${'b'.repeat(320)}.test`,
    'ana\u0000@x.test',
    'ana\u200b@x.test',
  ]
  for (const email of bad) assert.equal(isEmail(normaliseEmail(email)), false, email)
  for (const email of ['ana@x.test', 'ana.b+c@mail.x.test', "o'hara@x.test", 'éva@bücher.test']) {
    assert.equal(isEmail(email), true, email)
  }
})

test('blanks are nothing, and what is no address is told so', () => {
  assert.throws(() => emailOf('  '), /^Error: email is required$/)
  assert.throws(() => emailOf('x'), /^Error: invalid email format$/)
  assert.throws(() => emailOf('ana@x.test.'), /^Error: invalid email address$/)
  assert.throws(() => emailOf('a'.repeat(1_000_000)), /^Error: invalid email format$/)
})
