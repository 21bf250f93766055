import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { testDatabase } from '../../test/kit/database.ts'
import { currentHash, syncPassword } from '../features/admin/password.ts'
import { createPasswordsForOnce } from '../identity/hashing-once.ts'
import { passwordNote } from './password-note.ts'

const database = await testDatabase()
const db = await database.open()
const passwords = createPasswordsForOnce({ argon2_memory: 1024, argon2_time: 1, argon2_threads: 1 })
const dataDir = mkdtempSync(join(tmpdir(), 'svc-note-'))
database.atEnd(() => rmSync(dataDir, { recursive: true }))

/** How many times a start with this password hashes. */
async function hashesAtStart(password: string, key: string, folder = dataDir): Promise<number> {
  let count = 0
  const counted = {
    hash: (text: string) => {
      count++
      return passwords.hash(text)
    },
    verify: (text: string, encoded: string | undefined) => {
      count++
      return passwords.verify(text, encoded)
    },
  }
  await syncPassword({ db, passwords: counted, note: passwordNote(folder, Buffer.from(key)) }, password)
  return count
}

test('a start with the password of the last one hashes nothing; another password, or another hash, is never taken for it', async () => {
  assert.equal(await hashesAtStart('first', 'root'), 1)
  assert.equal(await hashesAtStart('first', 'root'), 0)
  assert.equal(await hashesAtStart('second', 'root'), 2, 'checked against the old one, and hashed')
  assert.equal(await hashesAtStart('second', 'root'), 0)
  // Somebody else changed it since.
  assert.equal(await hashesAtStart('first', 'root', join(dataDir, 'nowhere')), 2)
  assert.equal(await hashesAtStart('second', 'root'), 2)
  assert.equal(await passwords.verify('second', (await currentHash(db)) ?? undefined), true)
})

test('the note says nothing to who lacks the key, and is for this account alone', async () => {
  assert.equal(await hashesAtStart('second', 'another root'), 1)
  const [name = ''] = readdirSync(dataDir)
  assert.deepEqual(readdirSync(dataDir), [name])
  assert.equal(statSync(join(dataDir, name)).mode & 0o777, 0o600)
  assert.match(readFileSync(join(dataDir, name), 'utf8'), /^[0-9a-f]{64}$/)
})
