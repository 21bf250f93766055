import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hashSync } from '@node-rs/bcrypt'
import { atEnd } from '../../../test/kit/at-end.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { importInto } from '../../../test/kit/users-import.ts'
import { printPlan } from '../adopt/plan.ts'
import { JsonRecords } from './json-records.ts'
import { SeenTexts } from './seen.ts'

const api = await startServer({
  config: {
    'auth.sms_enabled': true,
    'auth.sms_allowed_countries': ['CH'],
    'auth.sms_test_phone_numbers': Object.fromEntries([1, 2, 3, 4].map((at) => [`+4179000000${at}`, '424242'])),
  },
})
const bring = importInto(api)
const folder = mkdtempSync(join(tmpdir(), 'svc-users-'))
atEnd(() => rmSync(folder, { recursive: true, force: true }))
const fileOf = (content: string | Uint8Array, name = 'users.json'): string => {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}
const countOf = async (): Promise<number> => Number((await api.sql('select count(*) from svc.users'))[0].count)
const good = { email: 'good@x.test', email_verified: true }

test('a broken file is a sentence, and nothing of it comes', async () => {
  const bad: [string | Uint8Array, RegExp][] = [
    [`[${JSON.stringify(good)},{"email":"cut@x.te`, /cannot be read after 1 users: it ends in the middle of the list/],
    [`[${JSON.stringify(good)},{"email":}]`, /cannot be read after 1 users: the next one is not JSON/],
    [`[${JSON.stringify(good)},[1]]`, /it is no list of users/],
    [`${JSON.stringify(good)}\nnonsense`, /cannot be read after 1 users/],
    [`[{"email":"${'a'.repeat(2 ** 20)}"}]`, /a user has more than 1048576 characters/],
    [Buffer.from([0x5b, 0x7b, 0xff, 0xfe]), /it is not UTF-8/],
    ['email,password_hash\n"a@x.test', /cannot be read after 0 users: a quote is not closed/],
    ['', /has no users of the format generic/],
    ['[]', /has no users of the format generic/],
    ['[{"product":"chair"},{"product":"table"}]', /has no users of the format generic/],
  ]
  const before = await countOf()
  for (const [content, reason] of bad) await assert.rejects(bring(fileOf(content), 'generic', { apply: true }), reason)
  symlinkSync(fileOf(JSON.stringify([good])), join(folder, 'link.json'))
  await assert.rejects(bring(join(folder, 'link.json'), 'generic', { apply: true }), /is a link: name the file itself/)
  await assert.rejects(bring(folder, 'generic', { apply: true }), /is not a file/)
  await assert.rejects(bring(join(folder, 'none.json'), 'generic'), /there is no file/)
  await assert.rejects(bring(fileOf('[]'), 'oracle'), /usage: svc users import/)
  assert.equal(await countOf(), before)
})

test('hostile values are data: they arrive harmless, or are left out and listed', async () => {
  const deep = `${'['.repeat(5000)}${']'.repeat(5000)}`
  const users = [
    `{"email":"nul@x.test","name":"a\\u0000b\\ud800","metadata":{"k\\u0000ey":"\\u0000","__proto__":{"x":1}}}`,
    `{"email":"deep@x.test","metadata":{"a":${deep}}}`,
    `{"email":"large@x.test","metadata":{"a":"${'x'.repeat(20_000)}"}}`,
    `{"email":"x@x.test\\r\\nBcc: all@x.test","id":"\\u001b[2Jid"}`,
    `{"email":{"a":1},"id":"object"}`,
    `{"email":"date@x.test","created_at":"infinity"}`,
    `{"email":"date2@x.test","created_at":"999999-01-01"}`,
    `{"email":"'); drop table svc.users; --@x.test","id":"'); drop table svc.users; --"}`,
    `{"email":"role@x.test","app_metadata":"{\\"role\\":\\"x\\"}","identities":[{"provider":"../x","subject":"1"},{"provider":"github"}]}`,
    `{"id":"${'k'.repeat(5000)}"}`,
    `{"__proto__":{"email":"proto@x.test"},"constructor":1}`,
  ]
  const { plan } = await bring(fileOf(`[${users.join()}]`), 'generic', { apply: true })
  assert.deepEqual(plan.done, { users: 10, joined: 0, before: 0 })
  const [row] = await api.sql(`select metadata::text from svc.users where email = 'nul@x.test'`)
  assert.deepEqual(JSON.parse(row.metadata), JSON.parse('{"name":"ab\ufffd","key":"","__proto__":{"x":1}}'))
  for (const email of ['deep@x.test', 'large@x.test'])
    assert.ok(
      plan.notes.some(({ what, why }) => what === email && why.startsWith('has metadata of more than')),
      email,
    )
  assert.equal((await api.sql('select from svc.identities')).length, 0)
  const lines: string[] = []
  printPlan(plan, (line) => lines.push(line))
  assert.ok(!/\p{Cc}/u.test(lines.join('').replaceAll('\n', '')), 'no control character reaches the terminal')
})

test('who proved another way to sign in has not proven the address: its owner, who comes later, shares no account with them', async () => {
  const proven = '2024-01-01T00:00:00Z'
  const stranger = (at: number, more: object = {}) => ({
    id: `${at}2222222-2222-4222-8222-222222222222`,
    email: `owner${at}@x.test`,
    encrypted_password: hashSync('a password of the stranger', 4),
    phone: `4179000000${at}`,
    confirmed_at: proven,
    identities: [{ provider: 'google', provider_id: `stranger${at}`, identity_data: { sub: `stranger${at}` } }],
    ...more,
  })
  // A row as JSON; an answer of Supabase's API, which leaves out what is null; a table of chosen columns.
  const users = [
    stranger(1, { phone_confirmed_at: proven, email_confirmed_at: null }),
    stranger(2, { phone_confirmed_at: proven }),
    stranger(3),
  ]
  const { plan } = await bring(fileOf(JSON.stringify(users)), 'supabase', { apply: true })
  assert.deepEqual(plan.done, { users: 3, joined: 0, before: 0 })
  const header = 'id,email,encrypted_password,email_confirmed_at,phone,phone_confirmed_at,confirmed_at'
  const line = ({ id, email, encrypted_password, phone }: ReturnType<typeof stranger>): string =>
    [id, email, encrypted_password, '', phone, proven, proven].join()
  await bring(fileOf(`${header}\n${line(stranger(4))}\n`, 'users.csv'), 'supabase', { apply: true })
  assert.deepEqual(
    await api.sql(`select email from svc.users where email like 'owner%' and email_verified_at is not null`),
    [],
  )

  const owners = [1, 2, 3, 4].map((at) => ({
    email: `owner${at}@x.test`,
    email_verified: true,
    password_hash: hashSync('my own password', 4),
  }))
  assert.deepEqual((await bring(fileOf(JSON.stringify(owners)), 'generic', { apply: true })).plan.done, {
    ...{ users: 0, joined: 4, before: 0 },
  })
  for (const at of [1, 2, 3, 4]) {
    const login = (password: string) =>
      api.call('POST /api/auth/login', { json: { email: `owner${at}@x.test`, password } })
    assert.equal((await login('a password of the stranger')).status, 401)
    const { status, body } = await login('my own password')
    assert.deepEqual([status, body.user.emailVerified, body.user.phone], [200, true, undefined])
    const phone = `+4179000000${at}`
    await api.call('POST /api/auth/sms', { json: { phone } })
    const other = await api.call('POST /api/auth/sms/confirm', { json: { phone, code: '424242' } })
    assert.deepEqual([other.status, other.body.user.email], [200, ''])
  }
  assert.equal((await api.sql(`select from svc.identities where subject like 'stranger%'`)).length, 0)
})

test('rows of a Supabase from before phone numbers say by confirmed_at that an address is proven', async () => {
  const row = {
    id: '72222222-2222-4222-8222-222222222222',
    email: 'early@x.test',
    confirmed_at: '2020-01-01T00:00:00Z',
  }
  await bring(fileOf(JSON.stringify([row])), 'supabase', { apply: true })
  await bring(fileOf('id,email,confirmed_at\n,early2@x.test,\n', 'early.csv'), 'supabase', { apply: true })
  assert.deepEqual(
    await api.sql(`select email from svc.users where email like 'early%' and email_verified_at is not null`),
    [{ email: 'early@x.test' }],
  )
})

test('a generic record proves its address by the field that is about the address alone', async () => {
  const users = [
    { email: 'said1@x.test', email_verified: false, verified: true },
    { email: 'said2@x.test', email_verified: null, email_verified_at: '2024-01-01' },
    { email: 'said3@x.test', email_confirmed_at: null, verified: true },
    { email: 'said4@x.test', email_verified: false, email_confirmed_at: '2024-01-01' },
    { email: 'said5@x.test', emailVerified: true, verified: false },
    { email: 'said6@x.test', email_verified_at: '2024-01-01' },
    { email: 'said7@x.test', verified: 1 },
    { phone: '+41790000011', phone_verified: null, phoneVerified: true },
  ]
  await bring(fileOf(JSON.stringify(users)), 'generic', { apply: true })
  assert.deepEqual(
    await api.sql(
      `select email from svc.users where email like 'said%' and email_verified_at is not null or phone = '+41790000011' order by 1`,
    ),
    [5, 6, 7].map((at) => ({ email: `said${at}@x.test` })),
  )
})

test('costs above the ceiling are refused when they are imported, and no sign-in pays for them', async () => {
  const tail = `c2FsdHNhbHQ$${'A'.repeat(43)}`
  const hashes = [
    `$2b$31$${'a'.repeat(53)}`,
    `$argon2id$v=19$m=4194304,t=99,p=1$${tail}`,
    `$scrypt$ln=30,r=64,p=64$${tail}`,
    `$pbkdf2-sha256$i=4294967295$${tail}`,
    `pbkdf2_sha256$999999999$salt$${'A'.repeat(43)}=`,
    `scrypt:1073741824:8:1$salt$${'ab'.repeat(64)}`,
    `$6$rounds=999999999$salt$${'a'.repeat(86)}`,
  ]
  const users = hashes.map((password_hash, at) => ({ email: `costly${at}@x.test`, password_hash }))
  const { plan } = await bring(fileOf(JSON.stringify(users)), 'generic', { apply: true })
  assert.deepEqual(plan.users.by_credential, { unknown: hashes.length })
  assert.deepEqual(
    await api.sql(`select email from svc.users where email like 'costly%' and password_hash is not null`),
    [],
  )
  assert.equal(
    (await api.call('POST /api/auth/login', { json: { email: 'costly0@x.test', password: 'anything at all' } })).status,
    401,
  )
})

test('an import and people who register at the same time take no address from each other', async () => {
  const password_hash = hashSync('old password', 4)
  const users = Array.from({ length: 1200 }, (_, at) => ({
    email: `race${at}@x.test`,
    email_verified: true,
    password_hash,
  }))
  const taken = [3, 600, 1100].map((at) =>
    api.call('POST /api/auth/register', { json: { email: `race${at}@x.test`, password: 'my own password' } }),
  )
  const file = fileOf(JSON.stringify(users), 'race.json')
  const [first, second] = await Promise.allSettled([
    bring(file, 'generic', { apply: true }),
    bring(file, 'generic', { apply: true }),
  ])
  assert.ok((await Promise.all(taken)).every(({ status }) => status === 201 || status === 409))
  for (const run of [first, second])
    if (run.status === 'rejected') assert.match(String(run.reason), /another svc adopt or svc users import is at work/)
  assert.ok([first, second].some(({ status }) => status === 'fulfilled'))
  assert.equal((await api.sql(`select from svc.users where email like 'race%'`)).length, 1200)
})

test('records are cut alike, whatever the pieces are', () => {
  const text = '{"a":"users","users":[{"a":"}]\\"{"},{"b":{"users":[1]}}],"rest":[{"c":1}]}'
  for (let size = 1; size < text.length; size++) {
    const records = new JsonRecords()
    const found: string[] = []
    for (let at = 0; at < text.length && !records.isDone; at += size)
      found.push(...records.read(text.slice(at, at + size)))
    records.end()
    assert.deepEqual(found, ['{"a":"}]\\"{"}', '{"b":{"users":[1]}}'])
  }
})

test('a text is seen once, among many', () => {
  const seen = new SeenTexts()
  for (let at = 0; at < 100_000; at++) assert.ok(seen.add(`user${at}@x.test`))
  for (let at = 0; at < 100_000; at += 999) assert.ok(!seen.add(`user${at}@x.test`))
})
