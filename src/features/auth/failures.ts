import { AppError } from '../../core/errors.ts'

/** Of passwords and codes alike: whoever guessed too often waits. */
export const tooManyFailures = (seconds: number): AppError =>
  new AppError('too_many_attempts', 'too many failed attempts, try again later', {
    headers: { 'Retry-After': String(Math.max(1, seconds)) },
  })
