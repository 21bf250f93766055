import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import type { Options } from '@node-rs/argon2'
import type { HashRecipe } from './imported-hash.ts'

/**
 * `given`: as it was typed, which is what other systems hashed. `hasDecoy`: a refusal makes one of our hashes too, as a success
 * does to replace an old one, so that neither a fast nor an old hash shows.
 */
export type HashJob =
  | { kind: 'hash'; password: string }
  | { kind: 'verify'; password: string; given: string; recipe: HashRecipe; hasDecoy: boolean }
export type HashResult = { value: string | boolean } | { failure: string }

// Source text instead of a file, because TypeScript loaders do not work in worker threads on Node 20.
// On Linux the nice value applies to the calling thread, so only this worker gets a low priority; elsewhere it would
// slow the whole process.
const source = `
const { parentPort, workerData } = require('node:worker_threads')
const { hashSync, verifySync } = require(workerData.argon2)
const crypto = require('node:crypto')
const same = (a, b) => a.length === b.length && crypto.timingSafeEqual(a, b)
const scrypt = (password, { log2N, r, p, salt }, length) =>
  crypto.scryptSync(password, salt, length, { N: 2 ** log2N, r, p, maxmem: 128 * r * (2 ** log2N + p) + 1048576 })
const ways = {
  argon2: (recipe, password) => verifySync(recipe.encoded, password),
  bcrypt: (recipe, password) => require(workerData.bcrypt).verifySync(
    recipe.isDigested ? crypto.createHash('sha256').update(password).digest('hex') : password, recipe.encoded),
  scrypt: (recipe, password) => same(scrypt(password, recipe, recipe.hash.length), recipe.hash),
  // The derived key encrypts the key of the project: https://github.com/firebase/scrypt
  firebase: (recipe, password) => {
    const cipher = crypto.createCipheriv('aes-256-ctr', scrypt(password, recipe, 32), Buffer.alloc(16))
    return same(Buffer.concat([cipher.update(recipe.key), cipher.final()]), recipe.hash)
  },
  pbkdf2: ({ salt, iterations, hash, digest }, password) =>
    same(crypto.pbkdf2Sync(password, salt, iterations, hash.length, digest), hash),
  digest: ({ digest, isSaltFirst, salt, hash }, password) => {
    const made = crypto.createHash(digest)
    for (const part of isSaltFirst ? [salt, password] : [password, salt]) made.update(part)
    return same(made.digest(), hash)
  },
  hmac: ({ digest, key, hash }, password) => same(crypto.createHmac(digest, key).update(password).digest(), hash),
  crypt: (recipe, password) => same(Buffer.from(shaCrypt(recipe, Buffer.from(password))), Buffer.from(recipe.hash)),
}
// https://www.akkadia.org/drepper/SHA-crypt.txt
const shaCrypt = ({ digest, rounds, salt: given }, password) => {
  const salt = Buffer.from(given)
  const of = (...parts) => crypto.createHash(digest).update(Buffer.concat(parts)).digest()
  const stretch = (block, length) => Buffer.concat(Array(Math.ceil(length / block.length)).fill(block)).subarray(0, length)
  const b = of(password, salt, password)
  const parts = [password, salt, stretch(b, password.length)]
  for (let n = password.length; n > 0; n >>= 1) parts.push(n & 1 ? b : password)
  let a = of(...parts)
  const p = stretch(of(...Array(password.length).fill(password)), password.length)
  const s = stretch(of(...Array(16 + a[0]).fill(salt)), salt.length)
  for (let i = 0; i < rounds; i++)
    a = of(i & 1 ? p : a, i % 3 ? s : Buffer.alloc(0), i % 7 ? p : Buffer.alloc(0), i & 1 ? a : p)
  const letters = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  const third = Math.floor(a.length / 3)
  let out = ''
  const put = (value, count) => {
    for (let i = 0; i < count; i++) { out += letters[value & 63]; value >>= 6 }
  }
  for (let i = 0; i < third; i++) {
    let group = [a[i], a[i + third], a[i + 2 * third]]
    const turns = digest === 'sha512' ? i % 3 : (3 - (i % 3)) % 3
    for (let turn = 0; turn < turns; turn++) group = [group[1], group[2], group[0]]
    put((group[0] << 16) | (group[1] << 8) | group[2], 4)
  }
  if (digest === 'sha512') put(a[63], 2)
  else put((a[31] << 8) | a[30], 3)
  return out
}
const fits = (recipe, password) => {
  try {
    return ways[recipe.how](recipe, password)
  } catch {
    return false // unreadable hash
  }
}
const verify = ({ recipe, password, given, hasDecoy }) => {
  if (fits(recipe, password) || (given !== password && fits(recipe, given))) return true
  if (hasDecoy) hashSync(password, workerData.options)
  return false
}
if (process.platform === 'linux') require('node:os').setPriority(0, 19)
parentPort.on('message', (job) => {
  try {
    const value = job.kind === 'hash' ? hashSync(job.password, workerData.options) : verify(job)
    parentPort.postMessage({ value })
  } catch (error) {
    parentPort.postMessage({ failure: error.message })
  }
})
`

export function startPasswordWorker(options: Options): Worker {
  const { resolve } = createRequire(import.meta.url)
  const [argon2, bcrypt] = [resolve('@node-rs/argon2'), resolve('@node-rs/bcrypt')]
  return new Worker(source, {
    eval: true,
    workerData: { options, argon2, bcrypt },
    execArgv: [],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 32 },
  })
}
