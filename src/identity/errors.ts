import { AppError, hasStatus, unauthorized } from '../core/errors.ts'

export const invalidToken = (): AppError => unauthorized('invalid or expired token', 'invalid_token')

/** For passwords and codes. */
export const tooManyFailures = (seconds: number): AppError =>
  new AppError('too_many_attempts', 'too many failed attempts, try again later', {
    headers: { 'Retry-After': String(Math.max(1, seconds)) },
  })

/** For codes and mails. */
export const tooManyMessages = (seconds: number): AppError =>
  new AppError('rate_limited', 'too many requests', { headers: { 'Retry-After': String(seconds) } })

export const EMAIL_TAKEN = 'email already belongs to another account'

/** Replaces the message of a unique violation with that of the endpoint. */
export async function orEmailTaken<T>(work: Promise<T>, message: string): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (hasStatus(error, 409)) {
      throw new AppError('email_taken', message, { cause: error })
    }
    throw error
  }
}
