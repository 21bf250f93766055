import { AppError } from '../../../core/errors.ts'

/** For what a stolen first factor must not be enough for. */
export function requireAal2(who: { aal: 'aal1' | 'aal2' }): void {
  if (who.aal === 'aal2') return
  throw new AppError('forbidden', 'insufficient authentication assurance level: aal2 required', {
    data: { aal: { code: 'insufficient_aal', message: 'aal2 required' } },
  })
}
