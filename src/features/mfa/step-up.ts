import { notFound } from '../../core/errors.ts'
import { SYSTEM, type UserIdentity, userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Db } from '../../db/db.ts'
import { json, type Route, route } from '../../http/route.ts'
import { enrolledUser } from '../../identity/second-factor.ts'
import type { StepUp } from '../../identity/session.ts'
import { lockCaller } from '../../identity/users.ts'
import { listFactors } from './factors.ts'

const METHODS = ['totp', 'email', 'sms', 'webauthn', 'backup'] as const

/** A signed-in user proves a second factor without the first one again, for what needs aal2. */
export function stepUpRoute({ db, stepUp }: { db: Db; stepUp: StepUp }): Route {
  async function begin(user: UserIdentity) {
    const mfa_token = await db.tx(SYSTEM, async (tx) => {
      await lockCaller(tx, user)
      if ((await tx.run(enrolledUser(user.id))) === 0) throw notFound('no second factor enrolled', 'factor_not_found')
      return stepUp(tx, user)
    })
    const { factors, webauthn, backup_codes } = await listFactors(db, user.id)
    const has = { ...Object.fromEntries(factors.map(({ method }) => [method, 1])), webauthn, backup: backup_codes }
    return { mfa_token, methods: METHODS.filter((method) => (has as Record<string, number>)[method]) }
  }

  return route('POST /api/auth/mfa/step-up', {
    summary: 'Begin to prove a second factor in an open session; the verify routes then open one of aal2',
    auth: 'user',
    bodyKind: 'none',
    answers: { 200: t.object({ mfa_token: t.string(), methods: t.array(t.oneOf(METHODS)) }) },
    handle: async ({ who }) => json(200, await begin(userOf(who))),
  })
}
