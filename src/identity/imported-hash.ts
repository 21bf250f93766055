/** How a password is compared with a stored hash that another system made. Everything in it is within its ceiling. */
export type HashRecipe =
  | { how: 'argon2'; encoded: string }
  | { how: 'bcrypt'; encoded: string /** Django: of the hexadecimal SHA-256. */; isDigested: boolean }
  | { how: 'scrypt'; log2N: number; r: number; p: number; salt: Uint8Array; hash: Uint8Array }
  | { how: 'firebase'; log2N: number; r: number; p: number; salt: Uint8Array; key: Uint8Array; hash: Uint8Array }
  | { how: 'pbkdf2'; digest: string; iterations: number; salt: Uint8Array; hash: Uint8Array }
  | { how: 'digest'; digest: string; isSaltFirst: boolean; salt: Uint8Array; hash: Uint8Array }
  | { how: 'hmac'; digest: string; key: Uint8Array; hash: Uint8Array }
  | { how: 'crypt'; digest: 'sha256' | 'sha512'; rounds: number; salt: string; hash: string }

/** Hashes longer than any that is real are not read at all. */
const MAX_LENGTH = 4096
const MAX_SALT = 512
/** A shorter one would fit too many passwords. */
const MIN_HASH = 16
const MAX_HASH = 128

// Ceilings: the most expensive hash takes a worker a few seconds, so that no sign-in stalls others.
export const BCRYPT_HASH = /^\$2[aby]\$(0[4-9]|1[0-5])\$[./A-Za-z0-9]{53}$/
const DJANGO_BCRYPT = 'bcrypt_sha256$'
const MAX_ARGON2_KIB = 256 * 1024
const MAX_ARGON2_KIB_PASSES = 1024 * 1024
const MAX_ARGON2_LANES = 64
const MAX_SCRYPT_BYTES = 256 * 2 ** 20
const MAX_SCRYPT_BLOCKS = 2 ** 21
const MAX_PBKDF2_ROUNDS = 5_000_000
const MAX_CRYPT_ROUNDS = 500_000
/** Firebase's own. */
const MAX_FIREBASE = { log2N: 14, r: 8 }

const DIGESTS: ReadonlyMap<string, number> = new Map([
  ['md5', 16],
  ['sha1', 20],
  ['sha224', 28],
  ['sha256', 32],
  ['sha384', 48],
  ['sha512', 64],
])

export const digestLength = (name: string): number | undefined => DIGESTS.get(name)

/** Of base64, its URL form or passlib's; with or without padding. Undefined for anything else. */
export function base64Bytes(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9+/._-]*={0,2}$/.test(text)) return undefined
  return Buffer.from(text.replaceAll('.', '+'), 'base64')
}

export const base64Text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64').replace(/=+$/, '')

/** `a=1,b=2` by name; undefined unless every part has its form. */
function parametersOf(text: string): ReadonlyMap<string, string> | undefined {
  const found = new Map<string, string>()
  for (const part of text.split(',')) {
    const [, name, value] = /^([a-z]+)=([A-Za-z0-9+/_=-]*)$/.exec(part) ?? []
    if (name === undefined || value === undefined || found.has(name)) return undefined
    found.set(name, value)
  }
  return found
}

/** A whole number in a range; undefined for anything else, such as one of a hundred digits. */
export const wholeIn = (text: string | undefined, min: number, max: number): number | undefined => {
  if (text === undefined || !/^\d{1,10}$/.test(text)) return undefined
  const value = Number(text)
  return value >= min && value <= max ? value : undefined
}

/**
 * Undefined for a hash of another form, and for one that would take too long. Argon2 is that of `isImportable` or of our own
 * settings, so it has no ceiling here.
 */
export function hashRecipe(encoded: string): HashRecipe | undefined {
  if (encoded.length > MAX_LENGTH) return undefined
  if (ARGON2.test(encoded)) return { how: 'argon2', encoded }
  if (BCRYPT_HASH.test(encoded)) return { how: 'bcrypt', encoded, isDigested: false }
  if (encoded.startsWith(DJANGO_BCRYPT)) {
    const rest = encoded.slice(DJANGO_BCRYPT.length)
    return BCRYPT_HASH.test(rest) ? { how: 'bcrypt', encoded: rest, isDigested: true } : undefined
  }
  const [, kind = '', ...parts] = encoded.split('$')
  if (!encoded.startsWith('$') || parts.length < 1 || parts.length > 3) return undefined
  if (kind === '5' || kind === '6') return cryptRecipe(kind, parts)
  if (kind === 'scrypt') return scryptRecipe(parts)
  if (kind === 'fbscrypt') return firebaseRecipe(parts)
  const derived = /^pbkdf2-(sha1|sha224|sha256|sha384|sha512)$/.exec(kind)?.[1]
  if (derived !== undefined) return pbkdf2Recipe(derived, parts)
  const keyed = /^hmac-([a-z0-9]+)$/.exec(kind)?.[1]
  if (keyed !== undefined && DIGESTS.has(keyed)) return hmacRecipe(keyed, parts)
  return DIGESTS.has(kind) ? digestRecipe(kind, parts) : undefined
}

const ARGON2 = /^\$argon2(?:id?|d)\$v=\d+\$m=(\d{1,6}),t=(\d{1,2}),p=(\d{1,2})\$[A-Za-z0-9+/]+\$([A-Za-z0-9+/]+)$/

/** Whether a hash of another system may be kept: its form is known, and so is that it costs no more than a sign-in may. */
export function isImportable(encoded: string): boolean {
  const argon2 = encoded.length <= MAX_LENGTH ? ARGON2.exec(encoded) : null
  if (!argon2) return hashRecipe(encoded) !== undefined
  const [memory, passes, lanes] = argon2.slice(1, 4).map(Number) as [number, number, number]
  const hash = base64Bytes(argon2[4] ?? '')
  return (
    memory >= 8 * lanes &&
    passes >= 1 &&
    lanes >= 1 &&
    lanes <= MAX_ARGON2_LANES &&
    memory <= MAX_ARGON2_KIB &&
    memory * passes <= MAX_ARGON2_KIB_PASSES &&
    hash !== undefined &&
    hash.length >= MIN_HASH &&
    hash.length <= MAX_HASH
  )
}

/** KiB times passes of an argon2id of the newest version, as we make them; 0 for everything else. */
export function argon2idWork(encoded: string): number {
  const found = ARGON2.exec(encoded)
  return found && encoded.startsWith('$argon2id$v=19$') ? Number(found[1]) * Number(found[2]) : 0
}

const saltAndHash = (parts: readonly string[]): { salt: Uint8Array; hash: Uint8Array } | undefined => {
  const [salt, hash] = [base64Bytes(parts.at(-2) ?? '!'), base64Bytes(parts.at(-1) ?? '!')]
  if (!salt || !hash || salt.length > MAX_SALT || hash.length < MIN_HASH || hash.length > MAX_HASH) return undefined
  return { salt, hash }
}

const isScryptBearable = (log2N: number, r: number, p: number): boolean =>
  128 * 2 ** log2N * r <= MAX_SCRYPT_BYTES && 2 ** log2N * r * p <= MAX_SCRYPT_BLOCKS

function scryptRecipe(parts: readonly string[]): HashRecipe | undefined {
  const given = parametersOf(parts[0] ?? '')
  const [log2N, r, p] = [
    wholeIn(given?.get('ln'), 1, 24),
    wholeIn(given?.get('r'), 1, 64),
    wholeIn(given?.get('p'), 1, 64),
  ]
  const stored = parts.length === 3 ? saltAndHash(parts) : undefined
  if (!log2N || !r || !p || !stored || !isScryptBearable(log2N, r, p)) return undefined
  return { how: 'scrypt', log2N, r, p, ...stored }
}

/** `$fbscrypt$v=1,n=14,r=8,p=1,ss=…,sk=…$salt$hash`, as Supabase keeps Firebase's. */
function firebaseRecipe(parts: readonly string[]): HashRecipe | undefined {
  const given = parametersOf(parts[0] ?? '')
  const log2N = wholeIn(given?.get('n'), 1, MAX_FIREBASE.log2N)
  const r = wholeIn(given?.get('r'), 1, MAX_FIREBASE.r)
  const p = wholeIn(given?.get('p') ?? '1', 1, 1)
  const [separator, key] = [base64Bytes(given?.get('ss') ?? ''), base64Bytes(given?.get('sk') ?? '!')]
  const stored = parts.length === 3 ? saltAndHash(parts) : undefined
  if (!log2N || !r || !p || !separator || separator.length > MAX_SALT || !key || !stored) return undefined
  if (key.length !== stored.hash.length) return undefined
  return { how: 'firebase', log2N, r, p, key, hash: stored.hash, salt: Buffer.concat([stored.salt, separator]) }
}

/** `$pbkdf2-sha256$i=29000,l=32$salt$hash`, and passlib's `$pbkdf2-sha256$29000$salt$hash`. */
function pbkdf2Recipe(digest: string, parts: readonly string[]): HashRecipe | undefined {
  const [first = ''] = parts
  const given = first.includes('=') ? parametersOf(first) : new Map([['i', first]])
  const iterations = wholeIn(given?.get('i'), 1, MAX_PBKDF2_ROUNDS)
  const stored = parts.length === 3 ? saltAndHash(parts) : undefined
  if (!iterations || !stored) return undefined
  const length = given?.get('l')
  if (length !== undefined && wholeIn(length, stored.hash.length, stored.hash.length) === undefined) return undefined
  const blocks = Math.ceil(stored.hash.length / (DIGESTS.get(digest) ?? 1))
  return iterations * blocks <= MAX_PBKDF2_ROUNDS ? { how: 'pbkdf2', digest, iterations, ...stored } : undefined
}

/** `$sha256$o=suffix$salt$hash`: the salt after the password; else before it. Without a salt its part is empty. */
function digestRecipe(digest: string, parts: readonly string[]): HashRecipe | undefined {
  const order = parts.length === 3 ? parametersOf(parts[0] ?? '')?.get('o') : 'prefix'
  const stored = parts.length >= 2 ? saltAndHash(parts) : undefined
  if ((order !== 'prefix' && order !== 'suffix') || stored?.hash.length !== DIGESTS.get(digest)) return undefined
  return stored && { how: 'digest', digest, isSaltFirst: order === 'prefix', ...stored }
}

/** `$hmac-sha256$key$hash`. */
function hmacRecipe(digest: string, parts: readonly string[]): HashRecipe | undefined {
  const stored = parts.length === 2 ? saltAndHash(parts) : undefined
  if (!stored || stored.hash.length !== DIGESTS.get(digest)) return undefined
  return { how: 'hmac', digest, key: stored.salt, hash: stored.hash }
}

/** SHA-crypt of Unix: `$6$rounds=5000$salt$hash`. */
function cryptRecipe(kind: string, parts: readonly string[]): HashRecipe | undefined {
  const given = parts.length === 3 ? /^rounds=(\d{1,9})$/.exec(parts[0] ?? '')?.[1] : '5000'
  const rounds = wholeIn(given, 1000, MAX_CRYPT_ROUNDS)
  const [salt = '', hash = ''] = parts.slice(-2)
  const length = kind === '5' ? 43 : 86
  if (!rounds || parts.length < 2 || !/^[./A-Za-z0-9]{0,16}$/.test(salt)) return undefined
  if (hash.length !== length || !/^[./A-Za-z0-9]+$/.test(hash)) return undefined
  return { how: 'crypt', digest: kind === '5' ? 'sha256' : 'sha512', rounds, salt, hash }
}
