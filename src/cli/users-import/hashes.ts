import { base64Bytes, base64Text, digestLength, isImportable, wholeIn } from '../../identity/imported-hash.ts'

/** What a file says of a password: its kind, and the form in which it is kept; no hash: it cannot be checked here. */
export type Credential = { kind: string; hash: string | undefined }

const UNKNOWN: Credential = { kind: 'unknown', hash: undefined }

const checked = (kind: string, hash: string | undefined): Credential =>
  hash !== undefined && isImportable(hash) ? { kind, hash } : UNKNOWN

const KINDS: readonly (readonly [RegExp, string])[] = [
  [/^\$2|^bcrypt_sha256\$/, 'bcrypt'],
  [/^\$argon2/, 'argon2'],
  [/^\$scrypt\$/, 'scrypt'],
  [/^\$fbscrypt\$/, 'firebase-scrypt'],
  [/^\$pbkdf2-/, 'pbkdf2'],
  [/^\$hmac-/, 'hmac'],
  [/^\$5\$/, 'sha256-crypt'],
  [/^\$6\$/, 'sha512-crypt'],
]

/** A hash in PHC form, or in one of the forms of crypt, Django, passlib, Werkzeug and LDAP. */
export function credentialOf(given: string): Credential {
  const text = given.trim()
  if (text.length > 4096) return UNKNOWN
  const hash = ldap(text) ?? django(text) ?? werkzeug(text) ?? text
  return checked(KINDS.find(([form]) => form.test(hash))?.[1] ?? /^\$([a-z0-9]+)\$/.exec(hash)?.[1] ?? 'unknown', hash)
}

export type FirebaseParameters = { key: string; saltSeparator: string; rounds: number; memCost: number }

export function firebaseCredential(hash: string, salt: string, given: FirebaseParameters): Credential {
  const [key, separator, salted, made] = [given.key, given.saltSeparator, salt, hash].map(base64Bytes)
  if (!key || !separator || !salted || !made) return UNKNOWN
  const parameters = `v=1,n=${given.memCost},r=${given.rounds},p=1,ss=${base64Text(separator)},sk=${base64Text(key)}`
  return checked('firebase-scrypt', `$fbscrypt$${parameters}$${base64Text(salted)}$${base64Text(made)}`)
}

/** `{SSHA}` and its like (RFC 2307): the salt follows the hash. */
function ldap(text: string): string | undefined {
  const [, scheme = '', value = ''] = /^\{(S?(?:MD5|SHA(?:224|256|384|512)?))\}(.+)$/i.exec(text) ?? []
  if (scheme === '') return undefined
  const name = scheme.toLowerCase().replace(/^ss/, 's').replace(/^smd5/, 'md5')
  const digest = name === 'sha' ? 'sha1' : name
  const length = digestLength(digest)
  const bytes = base64Bytes(value)
  if (length === undefined || !bytes || bytes.length < length) return undefined
  return `$${digest}$o=suffix$${base64Text(bytes.subarray(length))}$${base64Text(bytes.subarray(0, length))}`
}

/** `pbkdf2_sha256$600000$salt$hash`, the salt as it is. */
function django(text: string): string | undefined {
  const [, digest, rounds, salt = '', hash] =
    /^pbkdf2_(sha1|sha256|sha512)\$(\d{1,10})\$([^$]+)\$([A-Za-z0-9+/=]+)$/.exec(text) ?? []
  if (digest === undefined || hash === undefined) return undefined
  return `$pbkdf2-${digest}$i=${rounds}$${base64Text(Buffer.from(salt))}$${hash.replace(/=+$/, '')}`
}

/** `scrypt:32768:8:1$salt$hex` and `pbkdf2:sha256:600000$salt$hex`. */
function werkzeug(text: string): string | undefined {
  const [, method = '', salt = '', hex = ''] = /^([a-z0-9:]+)\$([^$]+)\$([0-9a-f]+)$/.exec(text) ?? []
  const [name, ...given] = method.split(':')
  const tail = `$${base64Text(Buffer.from(salt))}$${base64Text(Buffer.from(hex, 'hex'))}`
  if (name === 'pbkdf2' && given.length === 2) return `$pbkdf2-${given[0]}$i=${given[1]}${tail}`
  const log2N = name === 'scrypt' && given.length === 3 ? log2Of(given[0]) : undefined
  return log2N === undefined ? undefined : `$scrypt$ln=${log2N},r=${given[1]},p=${given[2]}${tail}`
}

const log2Of = (text: string | undefined): number | undefined => {
  const power = Math.log2(wholeIn(text, 2, 2 ** 24) ?? 0)
  return Number.isInteger(power) ? power : undefined
}

type Encoded = { value?: unknown; encoding?: unknown }

/** Auth0's `custom_password_hash`. */
export function auth0Credential(given: Record<string, unknown>): Credential {
  const hash = objectOf(given['hash'])
  const salt = objectOf(given['salt'])
  const algorithm = String(given['algorithm'] ?? '').toLowerCase()
  const typed = String(objectOf(given['password'])['encoding'] ?? 'utf8').toLowerCase()
  if (typed !== 'utf8' && typed !== 'utf-8' && typed !== 'ascii') return UNKNOWN
  const value = typeof hash['value'] === 'string' ? hash['value'] : ''
  if (['argon2', 'bcrypt', 'pbkdf2', 'ldap'].includes(algorithm)) return credentialOf(value)
  const made = decoded(hash, 'hex')
  const salted = salt['value'] === undefined ? new Uint8Array() : decoded(salt, 'utf8')
  if (!made || !salted) return UNKNOWN
  const tail = `${base64Text(salted)}$${base64Text(made)}`
  if (algorithm === 'hmac') {
    const digest = String(hash['digest'] ?? '').toLowerCase()
    const key = decoded(objectOf(hash['key']), 'utf8')
    return key && salted.length === 0
      ? checked('hmac', `$hmac-${digest}$${base64Text(key)}$${base64Text(made)}`)
      : UNKNOWN
  }
  if (algorithm === 'scrypt') {
    const number = (name: string, usual: number): string => String(given[name] ?? hash[name] ?? usual)
    if (number('keylen', made.length) !== String(made.length)) return UNKNOWN
    const log2N = log2Of(number('cost', 16_384))
    return checked(
      'scrypt',
      `$scrypt$ln=${log2N},r=${number('blockSize', 8)},p=${number('parallelization', 1)}$${tail}`,
    )
  }
  const order = String(salt['position'] ?? 'prefix')
  return digestLength(algorithm) === undefined ? UNKNOWN : checked(algorithm, `$${algorithm}$o=${order}$${tail}`)
}

/** Clerk's `password_digest`, by its `password_hasher`. */
export function clerkCredential(digest: string, hasher: string): Credential {
  if (digest.length > 4096) return UNKNOWN
  const parts = digest.split('$')
  const hex = (text: string): string => base64Text(Buffer.from(/^([0-9a-f]{2})+$/i.test(text) ? text : '', 'hex'))
  switch (hasher) {
    case 'md5':
    case 'sha256':
      return checked(hasher, `$${hasher}$$${hex(digest)}`)
    case 'md5_salted':
    case 'sha256_salted':
      return checked(
        hasher.slice(0, -7),
        `$${hasher.slice(0, -7)}$o=suffix$${base64Text(Buffer.from(parts[1] ?? ''))}$${hex(parts[0] ?? '')}`,
      )
    case 'scrypt_firebase': {
      const [hash = '', salt = '', key = '', saltSeparator = '', rounds, memCost] = parts
      const [r, n] = [wholeIn(rounds, 1, 8), wholeIn(memCost, 1, 14)]
      return r && n ? firebaseCredential(hash, salt, { key, saltSeparator, rounds: r, memCost: n }) : UNKNOWN
    }
    // Both parts are base64, unlike Django's.
    case 'pbkdf2_sha256':
    case 'pbkdf2_sha512':
      return checked('pbkdf2', `$pbkdf2-${hasher.slice(7)}$i=${parts[1]}$${plain(parts[2])}$${plain(parts[3])}`)
    case 'pbkdf2_sha1':
      return checked(
        'pbkdf2',
        `$pbkdf2-sha1$i=${parts[1]}$${base64Text(Buffer.from(parts[2] ?? ''))}$${hex(parts[3] ?? '')}`,
      )
    case 'bcrypt_peppered':
    case 'awscognito':
      return UNKNOWN
    default:
      return credentialOf(digest)
  }
}

const plain = (base64: string | undefined): string => (base64 ?? '').replace(/=+$/, '')

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}

function decoded({ value, encoding }: Encoded, usual: string): Uint8Array | undefined {
  if (typeof value !== 'string') return undefined
  switch (String(encoding ?? usual).toLowerCase()) {
    case 'hex':
      return /^([0-9a-f]{2})*$/i.test(value) ? Buffer.from(value, 'hex') : undefined
    case 'base64':
      return base64Bytes(value)
    case 'utf8':
    case 'utf-8':
    case 'ascii':
      return Buffer.from(value)
    default:
      return undefined
  }
}
