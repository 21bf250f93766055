import assert from 'node:assert/strict'
import { createHash, pbkdf2Sync, scryptSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hashSync } from '@node-rs/bcrypt'
import { mailbox } from '../../../../test/fakes/mailbox.ts'
import { atEnd } from '../../../../test/kit/at-end.ts'
import { startServer } from '../../../../test/kit/kit.ts'
import { importInto } from '../../../../test/kit/users-import.ts'

const api = await startServer()
const mail = mailbox(api)
const folder = mkdtempSync(join(tmpdir(), 'svc-users-'))
atEnd(() => rmSync(folder, { recursive: true, force: true }))

const fileOf = (name: string, content: string): string => {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}
const bring = importInto(api)
const bcrypt = (password: string): string => hashSync(password, 4)
const login = (email: string, password: string) => api.call('POST /api/auth/login', { json: { email, password } })
const hashOf = async (email: string): Promise<string | null> =>
  (await api.sql('select password_hash from svc.users where email = $1', [email]))[0]?.password_hash

/** Of https://github.com/firebase/scrypt: user1password. */
const FIREBASE = {
  flags: {
    'hash-key-file': fileOf(
      'key',
      'jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==\n',
    ),
    'salt-separator': 'Bw==',
    rounds: '8',
    'mem-cost': '14',
  },
  passwordHash: 'lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==',
  salt: '42xEC+ixf3L2lw==',
}

test('Firebase: a dry run prints users by credential; --apply brings them, and old passwords become ours', async () => {
  const { passwordHash, salt, flags } = FIREBASE
  const users = [
    {
      localId: 'u1',
      email: 'Fire1@Example.com',
      emailVerified: true,
      passwordHash,
      salt,
      displayName: 'Fire One',
      photoUrl: 'https://p.test/1',
      createdAt: '1486324170000',
      customAttributes: '{"role":"editor"}',
    },
    {
      localId: 'u2',
      email: 'fire2@example.com',
      emailVerified: false,
      providerUserInfo: [{ providerId: 'google.com', rawId: '108', email: 'fire2@example.com' }],
    },
    { localId: 'u3', phoneNumber: '+491701234567' },
    { localId: 'u4', email: 'fire4@example.com', disabled: true, passwordHash, salt },
    { localId: 'u5' },
  ]
  const file = fileOf('firebase.json', JSON.stringify({ users }, null, 2))
  const dry = await bring(file, 'firebase', flags)
  assert.deepEqual(dry.plan.users, {
    total: 5,
    by_credential: { 'firebase-scrypt': 2, external: 1, phone: 1, anonymous: 1 },
  })
  assert.deepEqual([dry.plan.apply, dry.plan.done], [false, undefined])
  assert.equal(dry.plan.source, `firebase ${file}`)
  assert.equal((await login('fire1@example.com', 'user1password')).status, 401)
  assert.ok(!JSON.stringify(dry.plan).includes(passwordHash) && !JSON.stringify(dry.plan).includes('jxspr'))

  assert.deepEqual((await bring(file, 'firebase', { ...flags, apply: true })).plan.done, {
    users: 5,
    joined: 0,
    before: 0,
  })
  assert.equal((await login('fire1@example.com', 'user2password')).status, 401)
  assert.match((await hashOf('fire1@example.com')) ?? '', /^\$fbscrypt\$/)
  const { status, body } = await login('fire1@example.com', 'user1password')
  assert.equal(status, 200)
  assert.deepEqual(
    [body.user.emailVerified, body.user.metadata, body.user.app_metadata, body.user.createdAt],
    [true, { name: 'Fire One', picture: 'https://p.test/1' }, { role: 'editor' }, '2017-02-05T19:49:30.000Z'],
  )
  assert.match((await hashOf('fire1@example.com')) ?? '', /^\$argon2id\$/)
  assert.equal((await login('fire1@example.com', 'user1password')).status, 200)
  assert.notEqual((await login('fire4@example.com', 'user1password')).status, 200)
  const [linked] = await api.sql(
    `select i.subject, u.email, u.email_verified_at from svc.identities i join svc.users u on u.id = i.user_id where i.provider = 'google'`,
  )
  assert.deepEqual({ ...linked }, { subject: '108', email: 'fire2@example.com', email_verified_at: null })
  assert.equal((await api.sql(`select from svc.users where phone = '+491701234567'`)).length, 1)

  // Nothing that was changed or deleted here comes back.
  await api.sql(`delete from svc.users where email = 'fire2@example.com'`)
  assert.deepEqual((await bring(file, 'firebase', { ...flags, apply: true })).plan.done, {
    users: 0,
    joined: 0,
    before: 5,
  })
  assert.match((await hashOf('fire1@example.com')) ?? '', /^\$argon2id\$/)
  assert.equal((await api.sql(`select from svc.users where email = 'fire2@example.com'`)).length, 0)
})

test('Firebase: without the key of the project passwords are not thrown away', async () => {
  const { passwordHash, salt } = FIREBASE
  const row = [
    'c1',
    'csv1@example.com',
    'true',
    passwordHash,
    salt,
    '"One, Csv"',
    '',
    '77',
    '',
    '',
    '',
    ...Array(12).fill(''),
    '1486324170000',
    '',
    '+491701234568',
    'false',
    '"{""a"":1}"',
    '',
  ]
  const file = fileOf('firebase.csv', `${row.join(',')}\n`)
  assert.equal((await bring(file, 'firebase')).plan.users.by_credential['unknown'], 1)
  await assert.rejects(bring(file, 'firebase', { apply: true }), /need the hash parameters of the project/)
  assert.deepEqual((await bring(file, 'firebase', { ...FIREBASE.flags, apply: true })).plan.done, {
    users: 1,
    joined: 0,
    before: 0,
  })
  const { body } = await login('csv1@example.com', 'user1password')
  assert.deepEqual(
    [body.user.metadata, body.user.app_metadata, body.user.phone],
    [{ name: 'One, Csv' }, { a: 1 }, '+491701234568'],
  )
})

test('Auth0: custom_password_hash in its forms', async () => {
  const digest = (name: string, ...parts: string[]) =>
    parts.reduce((made, part) => made.update(part), createHash(name)).digest()
  const value = (bytes: Buffer, encoding: 'hex' | 'base64') => ({ value: bytes.toString(encoding), encoding })
  const salt = 'NaCl'
  const hashes: Record<string, object> = {
    bcrypt: { algorithm: 'bcrypt', hash: { value: bcrypt('old password') } },
    prefixed: {
      algorithm: 'sha256',
      hash: value(digest('sha256', salt, 'old password'), 'hex'),
      salt: { value: salt, position: 'prefix' },
    },
    suffixed: {
      algorithm: 'sha512',
      hash: value(digest('sha512', 'old password', salt), 'base64'),
      salt: { value: Buffer.from(salt).toString('hex'), encoding: 'hex', position: 'suffix' },
    },
    unsalted: { algorithm: 'sha1', hash: value(digest('sha1', 'old password'), 'hex') },
    ldap: {
      algorithm: 'ldap',
      hash: {
        value: `{SSHA}${Buffer.concat([digest('sha1', 'old password', salt), Buffer.from(salt)]).toString('base64')}`,
        encoding: 'utf8',
      },
    },
    pbkdf2: {
      algorithm: 'pbkdf2',
      hash: {
        value: `$pbkdf2-sha256$i=1000,l=32$${Buffer.from(salt).toString('base64').replace(/=+$/, '')}$${pbkdf2Sync('old password', salt, 1000, 32, 'sha256').toString('base64').replace(/=+$/, '')}`,
        encoding: 'utf8',
      },
    },
    scrypt: {
      algorithm: 'scrypt',
      hash: value(scryptSync('old password', salt, 64, { N: 1024 }), 'base64'),
      salt: { value: salt, encoding: 'utf8' },
      keylen: 64,
      cost: 1024,
      blockSize: 8,
      parallelization: 1,
    },
  }
  const users = Object.entries(hashes).map(([name, custom_password_hash]) => ({
    user_id: `auth0|${name}`,
    email: `${name}@auth0.test`,
    email_verified: true,
    custom_password_hash,
    user_metadata: { color: 'red' },
    app_metadata: { plan: 'full' },
  }))
  const file = fileOf('auth0.json', JSON.stringify(users))
  await bring(file, 'auth0', { apply: true })
  for (const { email } of users) {
    assert.equal((await login(email, 'old passwore')).status, 401, email)
    const { status, body } = await login(email, 'old password')
    assert.deepEqual(
      [status, body.user.metadata, body.user.app_metadata],
      [200, { color: 'red' }, { plan: 'full' }],
      email,
    )
    assert.match((await hashOf(email)) ?? '', /^\$argon2id\$/, 'the first sign-in replaces it')
  }
  // Its export of passwords: a line for each user.
  const lines = [
    {
      _id: { $oid: '60425dc43519d90068f82973' },
      email: 'line@auth0.test',
      email_verified: false,
      passwordHash: bcrypt('old password'),
    },
  ]
  await bring(fileOf('auth0.ndjson', lines.map((one) => `${JSON.stringify(one)}\n`).join('')), 'auth0', { apply: true })
  assert.equal((await login('line@auth0.test', 'old password')).body.user.emailVerified, false)
})

test('Clerk: the columns of its CSV', async () => {
  const file = fileOf(
    'clerk.csv',
    `id,first_name,last_name,username,primary_email_address,primary_phone_number,verified_email_addresses,unverified_email_addresses,verified_phone_numbers,unverified_phone_numbers,totp_secret,password_digest,password_hasher
user_1,Ann,"Lee, Jr",ann,ann@clerk.test,,ann@clerk.test|ann2@clerk.test,,,,,${bcrypt('old password')},bcrypt
user_2,Bo,,,bo@clerk.test,+15551234567,,bo@clerk.test,,+15551234567,JBSWY3DPEHPK3PXP,5f4dcc3b5aa765d61d8327deb882cf99,md5
user_3,,,,cy@clerk.test,,cy@clerk.test,,,,,awscognito#a#b#c,awscognito
`,
  )
  const { plan } = await bring(file, 'clerk', { apply: true })
  assert.deepEqual(plan.users, { total: 3, by_credential: { bcrypt: 1, md5: 1, unknown: 1 } })
  assert.ok(plan.notes.some(({ what, why }) => what === 'bo@clerk.test' && why.includes('second factor')))
  assert.ok(!JSON.stringify(plan).includes('JBSWY3DPEHPK3PXP'))
  const ann = (await login('ann@clerk.test', 'old password')).body.user
  assert.deepEqual(
    [ann.emailVerified, ann.metadata],
    [true, { given_name: 'Ann', family_name: 'Lee, Jr', username: 'ann' }],
  )
  const bo = (await login('bo@clerk.test', 'password')).body.user
  assert.deepEqual([bo.emailVerified, bo.phone], [false, undefined])
  assert.match((await hashOf('bo@clerk.test')) ?? '', /^\$argon2id\$/)
})

test('Supabase and generic: ids are kept, and what cannot sign in there cannot here', async () => {
  const [id, other] = ['1b4e28ba-2fa1-41d2-883f-0016d3cca427', '2b4e28ba-2fa1-41d2-883f-0016d3cca427']
  const rows = [
    {
      id,
      email: 'sup@x.test',
      encrypted_password: bcrypt('old password'),
      email_confirmed_at: '2024-01-01T00:00:00Z',
      raw_user_meta_data: { a: 1 },
      raw_app_meta_data: { provider: 'email' },
      created_at: '2023-05-05T05:05:05Z',
    },
    {
      id: other,
      email: 'banned@x.test',
      encrypted_password: bcrypt('old password'),
      banned_until: '2999-01-01T00:00:00Z',
    },
  ]
  await bring(fileOf('supabase.json', JSON.stringify(rows)), 'supabase', { apply: true })
  const { body } = await login('sup@x.test', 'old password')
  assert.deepEqual([body.user.id, body.user.app_metadata], [id, { provider: 'email' }])
  assert.notEqual((await login('banned@x.test', 'old password')).status, 200)

  const made = fileOf('generic.csv', `email,email_verified,passwordHash\ngen@x.test,true,${bcrypt('old password')}\n`)
  await bring(made, 'generic', { apply: true })
  assert.equal((await login('gen@x.test', 'old password')).body.user.emailVerified, true)
})

test('a hash that cannot be checked: a sign-in is refused like any other, and the address gets one link a day', async () => {
  const costly = `$argon2id$v=19$m=999999,t=99,p=1$c2FsdHNhbHQ$${'A'.repeat(43)}`
  const rows = ['$P$BaaaaaaaaaaaaaaaaaaaaaaaaaaaaA1', costly].map((password_hash, at) => ({
    email: `lost${at}@x.test`,
    email_verified: true,
    password_hash,
  }))
  const { plan } = await bring(fileOf('lost.json', JSON.stringify(rows)), 'generic', { apply: true })
  assert.deepEqual(plan.users.by_credential, { unknown: 2 })
  const wrong = await login('gen@x.test', 'not this one')
  for (const { email } of rows) {
    assert.equal(await hashOf(email), null)
    for (let tries = 0; tries < 3; tries++) {
      const { status, body } = await login(email, 'old password')
      assert.deepEqual([status, body], [wrong.status, wrong.body])
    }
  }
  const link = await mail.link('lost0@x.test', 1, '/auth/reset')
  const token = link.searchParams.get('token') ?? ''
  const set = await api.call('POST /api/auth/password-reset/confirm', { json: { token, password: 'a fresh password' } })
  assert.equal(set.status, 204)
  assert.equal((await login('lost0@x.test', 'a fresh password')).status, 200)
  await mail.link('lost1@x.test', 1, '/auth/reset')
  assert.equal((await api.sql(`select from svc.mail_tokens where email = 'lost1@x.test'`)).length, 1)
  await api.sql(`update svc.lost_passwords set mailed_at = now() - interval '25 hours'`)
  await login('lost1@x.test', 'old password')
  await mail.link('lost1@x.test', 2, '/auth/reset')
})

test('one address: the first of a file; a verified account keeps its password; an unverified one is emptied and joined', async () => {
  const proven = await api.signUp('proven@x.test', 'my own password')
  await api.sql(`update svc.users set email_verified_at = now() where email = 'proven@x.test'`)
  const guest = await api.signUp('guest@x.test', 'my own password')
  const user = (email: string, more: object = {}) => ({
    email,
    email_verified: true,
    password_hash: bcrypt('old password'),
    ...more,
  })
  const rows = [
    user('twice@x.test', { id: 'a' }),
    user('Twice@x.test', { id: 'b', password_hash: bcrypt('another password') }),
    user('proven@x.test'),
    user('guest@x.test'),
    user('sly@x.test', { email_verified: false }),
  ]
  await api.signUp('sly@x.test', 'my own password')
  await api.sql(`update svc.users set email_verified_at = now() where email = 'sly@x.test'`)
  const { plan } = await bring(fileOf('twice.json', JSON.stringify(rows)), 'generic', { apply: true })
  assert.deepEqual(plan.done, { users: 2, joined: 2, before: 0 })
  const why = (what: string): string => plan.notes.find((note) => note.what.startsWith(what))?.why ?? ''
  assert.equal(why('twice@x.test (b)'), 'is in the file before, with the same address')
  assert.equal(why('proven@x.test'), 'has an account here, which keeps its password')
  assert.equal(why('guest@x.test'), 'had an unverified account here: what it had was ended')
  assert.match(why('sly@x.test'), /comes without address and password/)
  assert.equal((await login('twice@x.test', 'old password')).status, 200)
  assert.equal((await login('proven@x.test', 'my own password')).body.user.id, proven.user.id)
  assert.equal((await login('guest@x.test', 'my own password')).status, 401)
  assert.equal((await login('guest@x.test', 'old password')).body.user.id, guest.user.id)
  assert.equal((await api.call('GET /api/auth/me', { as: guest.token })).status, 401)
  assert.equal((await login('sly@x.test', 'my own password')).status, 200)
})
