import { AppError, hasStatus, unauthorized } from '../core/errors.ts'

export const invalidToken = (): AppError => unauthorized('invalid or expired token', 'invalid_token')

/** Of passwords and codes alike: after too many wrong guesses the next one has to wait. */
export const tooManyFailures = (seconds: number): AppError =>
  new AppError('too_many_attempts', 'too many failed attempts, try again later', {
    headers: { 'Retry-After': String(Math.max(1, seconds)) },
  })

export const EMAIL_TAKEN = 'email already belongs to another account'

/** Turns "this value is taken" into the sentence of the endpoint. */
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
