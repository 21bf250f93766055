import assert from 'node:assert/strict'
import { createHash, createHmac, pbkdf2Sync, scryptSync } from 'node:crypto'
import { after, test } from 'node:test'
import { hashSync as argon2 } from '@node-rs/argon2'
import { hashSync as bcrypt } from '@node-rs/bcrypt'
import { base64Text, hashRecipe, isImportable } from './imported-hash.ts'
import { createPasswords } from './password-hashing.ts'

const passwords = createPasswords({
  argon2_memory: 64,
  argon2_time: 2,
  argon2_threads: 1,
  hash_concurrency: 2,
  hash_queue: 100,
})
after(() => passwords.stop())

const PASSWORD = 'old password'
const salt = Buffer.from('some salt')
const of = (digest: string, ...parts: (string | Buffer)[]): string =>
  base64Text(parts.reduce((made, part) => made.update(part), createHash(digest)).digest())
const scrypt = (ln: number, length = 32) =>
  base64Text(scryptSync(PASSWORD, salt, length, { N: 2 ** ln, r: 8, p: 1, maxmem: 2 ** 28 }))

/** Of https://github.com/firebase/scrypt: the password is user1password. */
const FIREBASE =
  '$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=='

const HASHES: Readonly<Record<string, string>> = {
  bcrypt: bcrypt(PASSWORD, 4),
  'bcrypt of Django': `bcrypt_sha256$${bcrypt(createHash('sha256').update(PASSWORD).digest('hex'), 4)}`,
  argon2id: argon2(PASSWORD, { memoryCost: 32, timeCost: 1, parallelism: 1 }),
  argon2i: argon2(PASSWORD, { memoryCost: 512, timeCost: 3, parallelism: 1, algorithm: 1 }),
  scrypt: `$scrypt$ln=10,r=8,p=1$${base64Text(salt)}$${scrypt(10)}`,
  'PBKDF2 as PHC': `$pbkdf2-sha256$i=1000,l=32$${base64Text(salt)}$${base64Text(pbkdf2Sync(PASSWORD, salt, 1000, 32, 'sha256'))}`,
  'PBKDF2 of passlib': `$pbkdf2-sha512$1000$${base64Text(salt)}$${base64Text(pbkdf2Sync(PASSWORD, salt, 1000, 64, 'sha512')).replaceAll('+', '.')}`,
  'SHA-1 with a salt': `$sha1$${base64Text(salt)}$${of('sha1', salt, PASSWORD)}`,
  'SHA-256 with a salt behind': `$sha256$o=suffix$${base64Text(salt)}$${of('sha256', PASSWORD, salt)}`,
  'SHA-512 without a salt': `$sha512$$${of('sha512', PASSWORD)}`,
  'HMAC with a key': `$hmac-sha256$${base64Text(salt)}$${base64Text(createHmac('sha256', salt).update(PASSWORD).digest())}`,
  'SHA-512 of crypt':
    '$6$abcdefgh$NEpZg7k0Wz8F4Xqr.3rVnoWnAh0baZvXzfynooFW932dTShjXx1D4KBHPJIklbKKjLEsGCI24hmLMc9jXTI9l.',
  'SHA-512 of crypt with rounds':
    '$6$rounds=1234$saltstring$gS9e8Mde9mxpWtCUBZjyciCsC1yjuYpgBagVvkk/5luqf9CT60ktA7rx2KJppfMeAEYSY0dRDpysy/EvdvpWl1',
  'SHA-256 of crypt with rounds': '$5$rounds=1234$saltstring$wf39iKEkJl2PrTsB3u3G/yxnu.z69xWKOpR.wDJUuV.',
}

for (const [name, hash] of Object.entries(HASHES)) {
  test(`${name}: the old password fits, another does not, and the hash is to be replaced`, async () => {
    assert.ok(isImportable(hash), hash)
    assert.equal(await passwords.verify(PASSWORD, hash), true)
    for (const wrong of ['old passwore', '', `${PASSWORD} `]) assert.equal(await passwords.verify(wrong, hash), false)
    assert.equal(passwords.isOutdated(hash), true)
  })
}

test('the example of Firebase fits', async () => {
  assert.equal(await passwords.verify('user1password', FIREBASE), true)
  assert.equal(await passwords.verify('user2password', FIREBASE), false)
})

test('a password that another system hashed as it was typed fits as it is typed', async () => {
  const typed = 'cafe\u0301 au lait'
  assert.equal(await passwords.verify(typed, bcrypt(typed, 4)), true)
  assert.equal(await passwords.verify(typed, bcrypt(typed.normalize('NFC'), 4)), true)
})

test('ours are kept, and replaced when less work than is configured now', async () => {
  const ours = await passwords.hash(PASSWORD)
  assert.equal(passwords.isOutdated(ours), false)
  assert.equal(passwords.isOutdated(ours.replace('t=2', 't=1')), true)
})

test('what would take long, and what is no hash, is refused before it costs anything', () => {
  const [s, h] = [base64Text(salt), 'A'.repeat(43)]
  const refused = [
    `$2b$16$${'a'.repeat(53)}`,
    `$2b$31$${'a'.repeat(53)}`,
    `$argon2id$v=19$m=999999,t=99,p=1$${s}$${h}`,
    `$argon2id$v=19$m=262144,t=5,p=1$${s}$${h}`,
    `$argon2id$v=19$m=4294967295,t=1,p=1$${s}$${h}`,
    `$argon2id$v=19$m=8,t=1,p=64$${s}$${h}`,
    `$argon2id$v=19$m=64,t=1,p=1$${s}$AAAA`,
    `$scrypt$ln=19,r=8,p=1$${s}$${h}`,
    `$scrypt$ln=17,r=8,p=64$${s}$${h}`,
    `$scrypt$ln=1,r=8,p=999999999999999999999999$${s}$${h}`,
    `$scrypt$ln=0,r=8,p=1$${s}$${h}`,
    `$scrypt$ln=14,r=8,p=1$${s}$AAAA`,
    `$pbkdf2-sha256$i=5000001$${s}$${h}`,
    `$pbkdf2-sha256$i=${'9'.repeat(400)}$${s}$${h}`,
    `$pbkdf2-sha1$i=5000000$${s}$${'A'.repeat(86)}`,
    `$pbkdf2-md5$i=1000$${s}$${h}`,
    `$pbkdf2-sha256$i=-1$${s}$${h}`,
    `$pbkdf2-sha256$i=1000,l=33$${s}$${h}`,
    FIREBASE.replace('n=14', 'n=15'),
    FIREBASE.replace('r=8', 'r=9'),
    FIREBASE.replace('p=1', 'p=2'),
    FIREBASE.replace(/sk=[^$]*/, 'sk=AAAA'),
    `$6$rounds=999999999$abc$${'a'.repeat(86)}`,
    `$6$abc$${'a'.repeat(85)}`,
    `$sha256$${s}$AAAA`,
    `$sha256$o=middle$${s}$${h}`,
    `$sha256$${'A'.repeat(2000)}$${h}`,
    `$md4$${s}$${h}`,
    `$__proto__$${s}$${h}`,
    `$constructor$${s}$${h}`,
    '$'.repeat(100_000),
    'x'.repeat(10_000_000),
    '',
    'plain text',
  ]
  for (const hash of refused) assert.equal(isImportable(hash), false, hash.slice(0, 100))
  for (const hash of refused.filter((one) => !one.startsWith('$argon2'))) assert.equal(hashRecipe(hash), undefined)
})

test('the highest costs that are taken', () => {
  const [s, h] = [base64Text(salt), 'A'.repeat(43)]
  for (const hash of [
    `$2b$15$${'a'.repeat(53)}`,
    `$argon2id$v=19$m=262144,t=4,p=4$${s}$${h}`,
    `$scrypt$ln=17,r=8,p=2$${s}$${h}`,
    `$pbkdf2-sha256$i=1200000$${s}$${h}`,
    `$pbkdf2-sha512$i=600000,l=64$${s}$${'A'.repeat(86)}`,
  ]) {
    assert.ok(isImportable(hash), hash)
  }
})
