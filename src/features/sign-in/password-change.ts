import { badRequest, unauthorized } from '../../core/errors.ts'
import { SYSTEM, type UserIdentity, userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { sql } from '../../db/sql.ts'
import { json, type Route, route } from '../../http/route.ts'
import type { RequireGoodPassword } from '../../identity/password-rules.ts'
import { signedIn } from '../../identity/responses.ts'
import { enrolledUser, requireAal2, requireOwnFactor } from '../../identity/second-factor.ts'
import { type AuthResponse, type Device, deviceOf, type FirstFactor } from '../../identity/session.ts'
import { lockCaller } from '../../identity/users.ts'
import type { SignInDeps } from './deps.ts'
import type { CheckPassword } from './password.ts'

const refused = () => unauthorized('invalid current password', 'invalid_credentials')

type ChangePassword = (user: UserIdentity, current: string, next: string, device: Device) => Promise<AuthResponse>

/**
 * Like a reset, for a signed-in user who knows the password: all sessions, refresh tokens and grants end, and a new
 * session of the same level begins.
 */
export function createPasswordChange(deps: SignInDeps, checkPassword: CheckPassword): ChangePassword {
  const { db } = deps
  const notice = { Notice: `The password of your ${deps.appName} account was changed.` }

  return async (user, current, next, device) => {
    if ((await db.run(SYSTEM, enrolledUser(user.id))) > 0) requireAal2(user)
    if (user.email === '') throw badRequest('account has no password')
    const { userId, hash, record } = await checkPassword(user.email, current, device, refused)
    // The address of an old token may belong to another account by now.
    if (userId !== user.id) throw refused()
    const nextHash = await deps.passwords.hash(next)
    const answer = await db.tx(SYSTEM, async (tx) => {
      await lockCaller(tx, user)
      await requireOwnFactor(tx, user)
      const changed = await tx.run(sql`
        update svc.users set password_hash = ${nextHash}, updated_at = now()
        where id = ${user.id}::uuid and password_hash = ${hash}`)
      if (changed === 0) throw refused()
      for (const statement of [...record, ...deps.endAccess(user.id)]) await tx.run(statement)
      await tx.run(deps.queueMail('auth.security_notice', user.email, notice))
      const session = deps.startSession(user.id, user.amr as readonly [FirstFactor, ...string[]], device)
      return session.open(tx, refused)
    })
    deps.onRevoked(user.id)
    deps.wakeMail()
    return answer()
  }
}

export const passwordChangeRoute = (deps: {
  changePassword: ChangePassword
  requireGoodPassword: RequireGoodPassword
}): Route =>
  route('POST /api/auth/password-change', {
    summary: 'Replace a password that is known; every other session ends',
    auth: 'user',
    limit: 'login',
    body: t.object({ current_password: t.string({ format: 'password' }), password: t.string({ format: 'password' }) }),
    answers: { 200: signedIn },
    handle: async (call) => {
      const { current_password: current, password } = call.body
      await deps.requireGoodPassword(password)
      return json(200, await deps.changePassword(userOf(call.who), current, password, deviceOf(call)))
    },
  })
