import { badRequest } from '../errors.ts'

const MAX_LOCAL = 64
const MAX_ADDRESS = 320
// No spaces, control characters or characters with a meaning in mail headers; at least two labels after the last @.
const LOCAL = /^[^\s@\p{C}"(),:;<>[\]\\]+$/u
const DOMAIN = /^[^\s@\p{C}"(),:;<>[\]\\.]+(\.[^\s@\p{C}"(),:;<>[\]\\.]+)+$/u

/** The form in which an address is stored, compared and written to. */
export function emailOf(given: string): string {
  const email = normaliseEmail(given)
  if (email === '') throw badRequest('email is required', 'invalid_email')
  // A trailing dot (the DNS root) would be a second spelling of an address that has another owner.
  if (email.endsWith('.')) throw badRequest('invalid email address', 'invalid_email')
  if (!isEmail(email)) throw badRequest('invalid email format', 'invalid_email')
  return email
}

export function normaliseEmail(text: string): string {
  if (text.length > MAX_ADDRESS * 2) return text
  return [...text.trim()].map(lowerCase).join('')
}

export function isEmail(email: string): boolean {
  const at = email.lastIndexOf('@')
  const [local, domain] = [email.slice(0, Math.max(at, 0)), email.slice(at + 1)]
  return [...email].length <= MAX_ADDRESS && local.length <= MAX_LOCAL && LOCAL.test(local) && DOMAIN.test(domain)
}

/**
 * Lower-cases only letters that map back: the Kelvin sign has the lower case k, and folding it would give an account to
 * the owner of a look-alike address.
 */
function lowerCase(letter: string): string {
  const lower = letter.toLowerCase()
  return lower.toUpperCase() === letter ? lower : letter
}
