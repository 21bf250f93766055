import { randomUUID } from 'node:crypto'
import { SYSTEM } from '../../core/identity.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/sql.ts'
import { EMAIL_TAKEN, orEmailTaken } from '../../identity/errors.ts'
import { type AccountData, keepAccountData, type SignUp, signingUp } from '../../identity/hooks.ts'
import { badMailToken, spendMailToken } from '../../identity/mail-links.ts'
import type { AuthResponse, Device } from '../../identity/session.ts'
import { endSessionsOf, idByEmail } from '../../identity/users.ts'
import type { SignInDeps } from './deps.ts'
import { linkAnonymous } from './sql.ts'

type Allow = (signUp: SignUp) => AccountData
type NewAccount = SignUp & { email: string }

export function createMagicLinks(deps: SignInDeps) {
  const { db } = deps
  const refused = () => badMailToken('magic_link')

  /** The account of a proven address, created if there is none. */
  async function ownerOf(tx: Tx, signUp: NewAccount, allow: Allow): Promise<{ id: string; changed: boolean }> {
    const { email } = signUp
    const id = randomUUID()
    const made = await tx.run(sql`
      insert into svc.users (id, email, email_verified_at) values (${id}::uuid, ${email}, now())
      on conflict (email) do nothing`)
    if (made > 0) await keepAccountData(tx, id, allow(signUp))
    const [user] = await tx.rows<{ id: string }>(idByEmail(email))
    if (!user) throw refused()
    return { id: user.id, changed: await deps.proveAddress(tx, user.id) }
  }

  /** False when the account is no longer anonymous; then the link is an ordinary sign-in. */
  async function upgrade(tx: Tx, anonymousId: string, signUp: NewAccount, allow: Allow): Promise<boolean> {
    const linked = tx.run(linkAnonymous(anonymousId, { email: signUp.email, emailVerified: true }))
    if ((await orEmailTaken(linked, EMAIL_TAKEN)) === 0) return false
    await keepAccountData(tx, anonymousId, allow(signUp))
    await tx.run(endSessionsOf(anonymousId))
    return true
  }

  return {
    /** The same for known and unknown addresses: an account is created only when the link is used. */
    async request(email: string): Promise<void> {
      await db.run(SYSTEM, deps.mailLink('magic_link', email))
      deps.wakeMail()
    },

    /** `anonymousId`: the anonymous user whose account gets the proven address. */
    async confirm(token: string, anonymousId: string | undefined, device: Device): Promise<AuthResponse> {
      const { user, answer } = await signingUp(deps.beforeSignUp, (allow) =>
        db.tx(SYSTEM, async (tx) => {
          const [spent] = await tx.rows<{ email: string }>(spendMailToken('magic_link', token))
          if (!spent) throw refused()
          const signUp: NewAccount = { method: 'magic_link', email: spent.email, device }
          const upgraded = anonymousId !== undefined && (await upgrade(tx, anonymousId, signUp, allow))
          const user = upgraded ? { id: anonymousId, changed: true } : await ownerOf(tx, signUp, allow)
          return { user, answer: await deps.startSession(user.id, ['otp'], device).open(tx, refused) }
        }),
      )
      if (user.changed) deps.onRevoked(user.id)
      return answer()
    },
  }
}
