import { randomUUID } from 'node:crypto'
import { SYSTEM } from '../../../core/identity.ts'
import type { Tx } from '../../../db/db.ts'
import { sql } from '../../../db/sql.ts'
import { type AccountDeps, orTaken } from '../accounts/accounts.ts'
import { badMailToken, spendMailToken } from '../accounts/mail-links.ts'
import { proveAddress } from '../accounts/proof.ts'
import { idByEmail, linkAnonymous } from '../accounts/sql.ts'
import type { Device } from '../sessions/device.ts'
import type { AuthResponse } from '../sessions/sessions.ts'
import { endAllOf } from '../sessions/sql.ts'

export type MagicLinks = ReturnType<typeof createMagicLinks>

export function createMagicLinks(deps: AccountDeps) {
  const { db, revocations, sessions, links, foreign } = deps

  /** The account of a proven address, made if there is none. */
  async function ownerOf(tx: Tx, email: string): Promise<{ id: string; changed: boolean }> {
    await tx.run(sql`
      insert into svc.users (id, email, email_verified_at) values (${randomUUID()}::uuid, ${email}, now())
      on conflict (email) do nothing`)
    const [user] = await tx.rows<{ id: string }>(idByEmail(email))
    if (!user) throw badMailToken('magic_link')
    return { id: user.id, changed: await proveAddress(tx, user.id, foreign) }
  }

  /** False when the account is no longer anonymous; then the link is a sign-in like any other. */
  async function upgrade(tx: Tx, anonymousId: string, email: string): Promise<boolean> {
    const linked = tx.run(linkAnonymous(anonymousId, { email, emailVerified: true }))
    if ((await orTaken(linked, 'email already belongs to another account')) === 0) return false
    await tx.run(endAllOf(anonymousId))
    return true
  }

  return {
    /** Known and unknown addresses take the same way: an account is made only when the link is used. */
    async request(email: string): Promise<void> {
      const { store, mail } = links.make('magic_link', email, null)
      await db.run(SYSTEM, [store, mail])
      deps.wakeMail()
    },

    /** `anonymousId`: the anonymous user who asks to keep their account under the proven address. */
    async confirm(token: string, anonymousId: string | undefined, device: Device): Promise<AuthResponse> {
      const { user, response } = await db.tx(SYSTEM, async (tx) => {
        const [spent] = await tx.rows<{ email: string }>(spendMailToken('magic_link', token))
        if (!spent) throw badMailToken('magic_link')
        const upgraded = anonymousId !== undefined && (await upgrade(tx, anonymousId, spent.email))
        const user = upgraded ? { id: anonymousId, changed: true } : await ownerOf(tx, spent.email)
        const signIn = sessions.signIn(user.id, ['otp'], device)
        return { user, response: signIn.finish(await tx.fly(signIn.statement)) }
      })
      if (user.changed) revocations.apply([{ kind: 'user', subject: user.id }])
      if (!response) throw badMailToken('magic_link')
      return response
    },
  }
}
