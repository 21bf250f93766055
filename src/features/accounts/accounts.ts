import { randomUUID } from 'node:crypto'
import { SYSTEM } from '../../core/identity.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import { invalidToken, orEmailTaken } from '../../identity/errors.ts'
import { badMailToken, isMailTokenGood, spendMailToken } from '../../identity/mail-links.ts'
import type { AuthResponse, Device } from '../../identity/session.ts'
import { idByEmail, insertUser } from '../../identity/users.ts'
import * as q from './sql.ts'

export type Accounts = ReturnType<typeof accountsOf>

type Needed = 'db' | 'passwords' | 'startSession' | 'mailLink' | 'wakeMail' | 'proveAddress' | 'onRevoked'

export type AccountDeps = Pick<IdentityDeps, Needed> & {
  /** Statements that end sessions and grants of the old password, and reset its failed attempts. */
  endAccess: (userId: string) => readonly Sql[]
}

export function accountsOf(deps: AccountDeps) {
  const { db, passwords, mailLink } = deps

  return {
    async register(email: string, password: string, device: Device): Promise<AuthResponse> {
      const id = randomUUID()
      const passwordHash = await passwords.hash(password)
      const link = mailLink('verify', email, id)
      const session = deps.startSession(id, ['password'], device)
      const flight = [insertUser({ id, email, passwordHash }), link.store, link.mail, session.statement] as const
      const [, , , answer] = await orEmailTaken(db.fly(SYSTEM, flight), 'email already registered')
      deps.wakeMail()
      return session.finish(answer)
    },

    async me(userId: string): Promise<string> {
      const user = await db.fly(SYSTEM, q.userJson(userId))
      if (user === null) throw invalidToken()
      return user
    },

    async remove(userId: string): Promise<void> {
      await db.run(SYSTEM, q.deleteUser(userId))
      deps.onRevoked(userId)
    },

    async requestReset(email: string): Promise<void> {
      const [user] = await db.rows<{ id: string }>(SYSTEM, idByEmail(email))
      // A token is stored for an unknown address too, but never sent, so that both cases take one commit.
      const { store, mail } = mailLink('reset', email, user?.id ?? null)
      await db.run(SYSTEM, user ? [store, mail] : store)
      deps.wakeMail()
    },

    async confirmReset(token: string, password: string): Promise<void> {
      // Checked before the expensive hash, so that invented tokens cannot occupy the workers.
      if ((await db.run(SYSTEM, isMailTokenGood('reset', token))) === 0) throw badMailToken('reset')
      const hash = await passwords.hash(password)
      const userId = await db.tx(SYSTEM, async (tx) => {
        const [spent] = await tx.rows<{ user_id: string | null }>(spendMailToken('reset', token))
        if (!spent?.user_id) throw badMailToken('reset')
        await deps.proveAddress(tx, spent.user_id)
        await tx.run(sql`
          update svc.users set password_hash = ${hash}, updated_at = now() where id = ${spent.user_id}::uuid`)
        for (const statement of deps.endAccess(spent.user_id)) await tx.run(statement)
        return spent.user_id
      })
      deps.onRevoked(userId)
    },

    async verify(token: string): Promise<void> {
      const verified = await db.run(
        SYSTEM,
        sql`
          with spent as (${spendMailToken('verify', token)})
          update svc.users u set email_verified_at = coalesce(u.email_verified_at, now()), updated_at = now()
          from spent where u.id = spent.user_id::uuid and u.email = spent.email`,
      )
      if (verified === 0) throw badMailToken('verify')
    },

    async resendVerification(userId: string): Promise<void> {
      const [user] = await db.rows<{ email: string }>(
        SYSTEM,
        sql`select email from svc.users where id = ${userId}::uuid and email is not null and email_verified_at is null`,
      )
      if (!user) return
      const { store, mail } = mailLink('verify', user.email, userId)
      await db.run(SYSTEM, [store, mail])
      deps.wakeMail()
    },
  }
}
