import { createRequire } from 'node:module'
import { type Argon2Config, argon2Options, normalPassword, type Passwords } from './password-hashing.ts'

/** Not imported, because `import()` of CommonJS starts a parser in WebAssembly, which holds 4 MB. */
const argon2 = () => createRequire(import.meta.url)('@node-rs/argon2') as typeof import('@node-rs/argon2')

/**
 * For a process that hashes once and serves nothing meanwhile, such as a start. It uses libuv's thread pool, because a worker
 * thread is a second V8, which holds 9 MB for half a minute.
 */
export function createPasswordsForOnce(config: Argon2Config): Pick<Passwords, 'hash' | 'verify'> {
  return {
    hash: (password) => argon2().hash(normalPassword(password), argon2Options(config)),
    verify: (password, encoded = '') =>
      argon2()
        .verify(encoded, normalPassword(password))
        .catch(() => false), // an unreadable hash fits nothing
  }
}
