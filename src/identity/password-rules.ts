import { createHash } from 'node:crypto'
import { badRequest } from '../core/errors.ts'
import type { Outgoing } from '../http/out/outgoing.ts'

const MAX_BYTES = 1024
const BREACH_CHECK_MS = 2_000
/** A range of the largest public list has some 50 kB. */
const MAX_RANGE_BYTES = 1024 * 1024

export type PasswordRules = { min_password_length: number; password_classes: number }

/** Longer passwords are refused everywhere, so no account has one. */
export const isHashable = (password: string): boolean => Buffer.byteLength(password) <= MAX_BYTES

const classesOf = (password: string): number =>
  [/\p{Ll}/u, /\p{Lu}/u, /\p{Nd}/u, /[^\p{Ll}\p{Lu}\p{Nd}]/u].filter((one) => one.test(password)).length

/** Checked before hashing, so that an oversized password costs nothing. */
export function checkPasswordRules(password: string, rules: PasswordRules): void {
  const { min_password_length: minLength, password_classes: classes } = rules
  if (!isHashable(password)) throw badRequest(`password must be at most ${MAX_BYTES} bytes`, 'weak_password')
  if ([...password].length < minLength)
    throw badRequest(`password must be at least ${minLength} characters`, 'weak_password')
  if (classesOf(password) < classes)
    throw badRequest(
      `password must have characters of at least ${classes} of: lower case, upper case, digits, others`,
      'weak_password',
    )
}

/** Throws 400 for a password that is not good enough for a new one. */
export type RequireGoodPassword = (password: string) => Promise<void>

/**
 * The rules, and a list of passwords that are known from breaches, asked for by the first five digits of the SHA-1, so that
 * it does not learn the password. While the list is away, people are not locked out.
 */
export const createPasswordPolicy =
  (rules: PasswordRules & { password_breach_url: string }, outgoing: Outgoing): RequireGoodPassword =>
  async (password) => {
    checkPasswordRules(password, rules)
    if (rules.password_breach_url === '') return
    const hash = createHash('sha1').update(password.normalize('NFC')).digest('hex').toUpperCase()
    const range = await outgoing
      .request({
        method: 'GET',
        url: `${rules.password_breach_url.replace(/\/$/, '')}/${hash.slice(0, 5)}`,
        headers: { 'Add-Padding': 'true' },
        timeoutMs: BREACH_CHECK_MS,
        maxBytes: MAX_RANGE_BYTES,
      })
      .catch(() => undefined)
    if (range?.status !== 200) return
    const found = new RegExp(`^${hash.slice(5)}:0*[1-9]`, 'im').test(range.body)
    if (found) throw badRequest('password is known from a data breach', 'weak_password')
  }
