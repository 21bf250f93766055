import { badRequest, unauthorized } from '../../../core/errors.ts'
import { SYSTEM, type UserIdentity, userOf } from '../../../core/identity.ts'
import * as t from '../../../core/json-type.ts'
import { sql } from '../../../db/sql.ts'
import { json, type Route, route } from '../../../http/route.ts'
import type { AccountDeps } from '../accounts/accounts.ts'
import type { QueueMail } from '../accounts/mail-links.ts'
import { signedIn } from '../answers.ts'
import { isEnrolled, requireAal2 } from '../assurance.ts'
import { type Device, deviceOf } from '../sessions/device.ts'
import type { AuthResponse, FirstFactor } from '../sessions/sessions.ts'
import { endAllOf } from '../sessions/sql.ts'
import { checkPassword as checkLength } from './hashing.ts'
import type { CheckPassword } from './password.ts'

const refused = () => unauthorized('invalid current password', 'invalid_credentials')

type ChangePassword = (user: UserIdentity, current: string, next: string, device: Device) => Promise<AuthResponse>

/**
 * As a reset, for somebody who is signed in and knows the password: all sessions, refresh tokens and grants end, and one
 * new session of the same level begins.
 */
export function createPasswordChange(
  deps: Pick<AccountDeps, 'db' | 'passwords' | 'sessions' | 'revocations' | 'foreign' | 'wakeMail'> & {
    checkPassword: CheckPassword
    queueMail: QueueMail
    appName: string
  },
): ChangePassword {
  const { db, passwords, sessions, revocations, foreign } = deps
  const notice = { Notice: `The password of your ${deps.appName} account was changed.` }

  return async (user, current, next, device) => {
    const [factor] = await db.rows<{ exists: boolean }>(SYSTEM, isEnrolled(user.id))
    if (factor?.exists) requireAal2(user)
    if (user.email === '') throw badRequest('account has no password')
    const { userId, hash, record } = await deps.checkPassword(user.email, current, device, refused)
    // The address of an old token may be somebody else's by now.
    if (userId !== user.id) throw refused()
    const nextHash = await passwords.hash(next)
    const response = await db.tx(SYSTEM, async (tx) => {
      const changed = await tx.run(sql`
        update svc.users set password_hash = ${nextHash}, updated_at = now()
        where id = ${user.id}::uuid and password_hash = ${hash}`)
      if (changed === 0) throw refused()
      for (const statement of [...record, endAllOf(user.id), ...foreign.endGrants(user.id)]) await tx.run(statement)
      await tx.run(deps.queueMail('auth.security_notice', user.email, notice))
      const signIn = sessions.signIn(user.id, user.amr as readonly [FirstFactor, ...string[]], device)
      return signIn.finish(await tx.fly(signIn.statement))
    })
    revocations.apply([{ kind: 'user', subject: user.id }])
    deps.wakeMail()
    if (!response) throw refused()
    return response
  }
}

export const passwordChangeRoute = (deps: { changePassword: ChangePassword; minPasswordLength: number }): Route =>
  route('POST /api/auth/password-change', {
    summary: 'Replace a password that is known; every other session ends',
    auth: 'user',
    limit: 'login',
    body: t.object({ current_password: t.string({ format: 'password' }), password: t.string({ format: 'password' }) }),
    answers: { 200: signedIn },
    handle: async (call) => {
      const { current_password: current, password } = call.body
      checkLength(password, deps.minPasswordLength)
      return json(200, await deps.changePassword(userOf(call.who), current, password, deviceOf(call)))
    },
  })
