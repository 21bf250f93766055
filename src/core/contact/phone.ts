import { badRequest } from '../errors.ts'

/** E.164: a plus, a country code that does not start with 0, at most 15 digits in all. */
const E164 = /^\+[1-9]\d{6,14}$/

/** The number as it is stored and compared, without spaces, dots, hyphens and parentheses. */
export function normalisePhone(text: string): string {
  const phone = text.replace(/[\s.\-()]/g, '')
  if (text.length > 64 || !E164.test(phone)) throw badRequest('invalid phone number format', 'invalid_phone')
  return phone
}
