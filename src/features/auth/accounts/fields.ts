import { badRequest } from '../../../core/errors.ts'
import { checkPassword } from '../sign-in/hashing.ts'

type Fields = Readonly<Record<string, unknown>>

/** Any characters at all: a password is hashed, never stored or shown, so even NUL is fine. */
export function passwordField(fields: Fields): string {
  const value = Object.hasOwn(fields, 'password') ? fields['password'] : undefined
  if (value === undefined || value === null || value === '') throw badRequest('password is required')
  if (typeof value !== 'string') throw badRequest('password must be a string')
  return value
}

export function newPasswordField(fields: Fields, minLength: number): string {
  const password = passwordField(fields)
  checkPassword(password, minLength)
  return password
}
