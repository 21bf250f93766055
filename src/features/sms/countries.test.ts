import assert from 'node:assert/strict'
import { test } from 'node:test'
import { normalisePhone } from '../../core/contact/phone.ts'
import { countriesOf } from './countries.ts'

test('the longest prefix names the country', () => {
  const cases: Record<string, string[]> = {
    '+12025550123': ['CA', 'US'],
    '+18765550123': ['JM'],
    '+18095550123': ['DO'],
    '+79161234567': ['RU'],
    '+77011234567': ['KZ'],
    '+447911123456': ['GG'],
    '+447400123456': ['GB'],
    '+441534123456': ['JE'],
    '+393312345678': ['IT'],
    '+390669812345': ['VA'],
    '+4915112345678': ['DE'],
    '+358181234567': ['AX'],
    '+358401234567': ['FI'],
    '+26263912345': ['YT'],
    '+262692123456': ['RE'],
    '+59995123456': ['CW'],
    '+59971234567': ['BQ'],
    '+61412345678': ['AU', 'CC', 'CX'],
    '+8613800138000': ['CN'],
    '+85251234567': ['HK'],
    '+88213300000': [],
  }
  for (const [phone, countries] of Object.entries(cases)) {
    assert.deepEqual([...countriesOf(phone)].sort(), countries, phone)
  }
})

test('phone numbers are stored in one form, and other texts are refused', () => {
  assert.equal(normalisePhone(' +1 (202) 555-01.23 '), '+12025550123')
  for (const bad of [
    '',
    '+',
    '12025550123',
    '0049151123456',
    '+0123456789',
    '+123456',
    `+${'1'.repeat(16)}`,
    '+1202555O123',
    '+1202555\u0661\u0662\u0663',
    `+1${' '.repeat(100)}2025550123`,
  ]) {
    assert.throws(() => normalisePhone(bad), /^Error: invalid phone number format$/, bad)
  }
})
