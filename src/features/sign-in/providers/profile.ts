import { isEmail, normaliseEmail } from '../../../core/contact/email-address.ts'
import { isStorableText } from '../../../core/storable.ts'

/** A user at a provider. The subject is stable; the address may change. */
export type Profile = {
  provider: string
  subject: string
  email: string | undefined
  emailVerified: boolean
}

/** From OpenID Connect claims (Core 1.0, 5.1) or GitHub's user object; undefined when they name no subject. */
export function profileOf(provider: string, claims: Readonly<Record<string, unknown>>): Profile | undefined {
  const subject = textOf(claims['sub']) ?? textOf(claims['id'])
  if (subject === undefined || subject.length > 255) return undefined
  const email = normaliseEmail(textOf(claims['email']) ?? '')
  const vouched = claims['email_verified'] === true || claims['email_verified'] === 'true'
  return isEmail(email)
    ? { provider, subject, email, emailVerified: vouched }
    : { provider, subject, email: undefined, emailVerified: false }
}

const textOf = (value: unknown): string | undefined => {
  // A number that a double does not hold comes as a text of its digits; any other one would stand for several people.
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined
  return typeof value === 'string' && value !== '' && isStorableText(value) ? value : undefined
}
