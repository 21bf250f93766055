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

const api = await startServer()
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
