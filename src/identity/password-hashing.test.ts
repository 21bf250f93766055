import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { AppError } from '../core/errors.ts'
import { createPasswordsForOnce } from './hashing-once.ts'
import { createPasswords } from './password-hashing.ts'
import { checkPasswordRules } from './password-rules.ts'

const cheap = { argon2_memory: 64, argon2_time: 1, argon2_threads: 1, hash_concurrency: 2, hash_queue: 100 }
const passwords = createPasswords(cheap)
after(() => passwords.stop())

test('a password verifies against its own hash only', async () => {
  const encoded = await passwords.hash('correct horse')
  assert.match(encoded, /^\$argon2id\$v=19\$m=64,t=1,p=1\$/)
  assert.equal(await passwords.verify('correct horse', encoded), true)
  assert.equal(await passwords.verify('correct horsf', encoded), false)
  assert.notEqual(encoded, await passwords.hash('correct horse'))
})

test('without a stored hash the answer is no, and takes a worker as it does with one', async () => {
  const single = createPasswords({ ...cheap, hash_concurrency: 1, hash_queue: 0 })
  const encoded = await single.hash('correct horse')
  for (const stored of [encoded, undefined, 'damaged']) {
    const answer = single.verify('wrong password', stored)
    await assert.rejects(single.hash('another'), /server busy/, 'the only worker is hashing')
    assert.equal(await answer, false)
  }
  await single.stop()
})

test('passwords that differ only after byte 72 are not interchangeable', async () => {
  const encoded = await passwords.hash(`${'a'.repeat(79)}x`)
  assert.equal(await passwords.verify(`${'a'.repeat(79)}y`, encoded), false)
})

test('the same letters composed differently are one password', async () => {
  const encoded = await passwords.hash('caf\u00e9 au lait')
  assert.equal(await passwords.verify('cafe\u0301 au lait', encoded), true)
})

test('a damaged stored hash fits nothing and takes no worker down', async () => {
  const good = await passwords.hash('correct horse')
  for (const damaged of ['not a hash', good.slice(0, -1), good.replace('m=', 'm=9999999'), '$2b$05$x']) {
    assert.equal(await passwords.verify('correct horse', damaged), false)
  }
  assert.equal(await passwords.verify('correct horse', await passwords.hash('correct horse')), true)
})

test('a hash made once and one of a worker are the same, and nothing fits a damaged one', async () => {
  const once = createPasswordsForOnce(cheap)
  const encoded = await once.hash('caf\u00e9 au lait')
  assert.match(encoded, /^\$argon2id\$v=19\$m=64,t=1,p=1\$/)
  assert.equal(await passwords.verify('cafe\u0301 au lait', encoded), true)
  assert.equal(passwords.isOutdated(encoded), false)
  const ofWorker = await passwords.hash('correct horse')
  assert.equal(await once.verify('correct horse', ofWorker), true)
  for (const stored of [encoded, ofWorker.slice(0, -1), 'not a hash', undefined]) {
    assert.equal(await once.verify('correct horse', stored), false)
  }
})

test('a full queue answers 503 and the rest is served', async () => {
  const small = createPasswords({ ...cheap, argon2_memory: 8192, hash_concurrency: 1, hash_queue: 2 })
  const results = await Promise.allSettled(Array.from({ length: 10 }, () => small.hash('correct horse')))
  const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  assert.equal(refused.length, 7)
  for (const error of refused) {
    assert.ok(error instanceof AppError)
    assert.deepEqual([error.status, error.message, error.headers?.['Retry-After']], [503, 'server busy', '1'])
  }
  assert.equal(small.queued(), 0)
  await small.stop()
})

test('after close hashing is refused and nothing hangs', async () => {
  const one = createPasswords({ ...cheap, hash_concurrency: 1 })
  const pending = Promise.allSettled([one.hash('a'), one.hash('b'), one.hash('c')])
  await one.stop()
  await assert.rejects(one.hash('d'), /server busy/)
  assert.equal((await pending).length, 3)
})

const rules = (min_password_length: number, password_classes = 0) => ({ min_password_length, password_classes })

test('length limits count characters below and bytes above', () => {
  assert.throws(() => checkPasswordRules('1234567', rules(8)), /password must be at least 8 characters/)
  assert.throws(() => checkPasswordRules('🦁🦁🦁🦁', rules(8)), /at least 8 characters/)
  assert.throws(() => checkPasswordRules('é'.repeat(513), rules(8)), /password must be at most 1024 bytes/)
  checkPasswordRules('12345678', rules(8))
  checkPasswordRules('a'.repeat(1024), rules(8))
})

test('classes of characters are lower case, upper case, digits and others, in any script', () => {
  checkPasswordRules('passwort', rules(8, 1))
  assert.throws(
    () => checkPasswordRules('passwort', rules(8, 2)),
    /at least 2 of: lower case, upper case, digits, others/,
  )
  checkPasswordRules('Пароль12', rules(8, 3))
  assert.throws(() => checkPasswordRules('Passwort12', rules(8, 4)), /at least 4 of/)
  checkPasswordRules('Passwort 12', rules(8, 4))
})
