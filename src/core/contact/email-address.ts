import { badRequest } from '../errors.ts'

const MAX_LOCAL = 64
const MAX_ADDRESS = 320
// No spaces, controls or characters that mean something in a mail header; at least two labels after the last @.
const LOCAL = /^[^\s@\p{C}"(),:;<>[\]\\]+$/u
const DOMAIN = /^[^\s@\p{C}"(),:;<>[\]\\.]+(\.[^\s@\p{C}"(),:;<>[\]\\.]+)+$/u

/** The one form in which an address is stored, compared and written to. */
export function emailOf(given: string): string {
  const email = normaliseEmail(given)
  if (email === '') throw badRequest('email is required', 'invalid_email')
  // The root of the domain name system: a second spelling of an address that may belong to somebody else.
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
 * Only letters whose upper case leads back: the Kelvin sign has the lower case k, and folding it would hand one
 * person's account to the owner of a look-alike address.
 */
function lowerCase(letter: string): string {
  const lower = letter.toLowerCase()
  return lower.toUpperCase() === letter ? lower : letter
}
