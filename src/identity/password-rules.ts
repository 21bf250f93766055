import { badRequest } from '../core/errors.ts'

const MAX_BYTES = 1024

/** Longer passwords are refused everywhere, so no account has one. */
export const isHashable = (password: string): boolean => Buffer.byteLength(password) <= MAX_BYTES

/** Checked before hashing, so that an oversized password costs nothing. */
export function checkPasswordRules(password: string, minLength: number): void {
  if (!isHashable(password)) throw badRequest(`password must be at most ${MAX_BYTES} bytes`, 'weak_password')
  if ([...password].length < minLength)
    throw badRequest(`password must be at least ${minLength} characters`, 'weak_password')
}
