import { AppError } from '../../core/errors.ts'
import { type Sql, sql } from '../../db/sql.ts'

/** Boolean expression over a user id: this account has a second factor. Backup codes alone are none. */
export const hasSecondFactor = (userId: Sql): Sql => sql`(
  exists (select from svc.mfa_factors f where f.user_id = ${userId} and f.confirmed_at is not null)
  or exists (select from svc.webauthn_credentials c where c.user_id = ${userId}))`

export const isEnrolled = (userId: string): Sql => sql`select ${hasSecondFactor(sql`${userId}::uuid`)} as exists`

/** For what a stolen first factor must not be enough for. */
export function requireAal2(who: { aal: 'aal1' | 'aal2' }): void {
  if (who.aal === 'aal2') return
  throw new AppError('insufficient_aal', 'insufficient authentication assurance level: aal2 required', {
    data: { aal: { code: 'insufficient_aal', message: 'aal2 required' } },
  })
}
