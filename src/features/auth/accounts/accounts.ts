import { randomUUID } from 'node:crypto'
import { AppError, hasStatus, unauthorized } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { sql } from '../../../db/sql.ts'
import type { Device } from '../sessions/device.ts'
import type { AuthResponse, Sessions, SignIn } from '../sessions/sessions.ts'
import { endAllOf } from '../sessions/sql.ts'
import type { Passwords } from '../sign-in/hashing.ts'
import { forgiveFailures } from '../sign-in/password.ts'
import type { Revocations } from '../tokens/revocations.ts'
import { badMailToken, isMailTokenGood, type MailLinks, spendMailToken } from './mail-links.ts'
import { type ForeignCredentials, proveAddress } from './proof.ts'
import * as q from './sql.ts'

export type Accounts = ReturnType<typeof createAccounts>

export type AccountDeps = {
  db: Db
  revocations: Revocations
  passwords: Passwords
  sessions: Sessions
  links: MailLinks
  wakeMail: () => void
  foreign: ForeignCredentials
}

const only = (signIn: SignIn, answer: string | null): AuthResponse => {
  const response = signIn.finish(answer)
  // The account was deleted between two statements of its owner.
  if (!response) throw unauthorized('invalid or expired token', 'invalid_token')
  return response
}

/** Turns "this value is taken" into the sentence of the endpoint. */
export async function orTaken<T>(work: Promise<T>, message: string): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (hasStatus(error, 409)) {
      throw new AppError('email_taken', message, { cause: error })
    }
    throw error
  }
}

export function createAccounts(deps: AccountDeps) {
  const { db, revocations, passwords, sessions, links, foreign } = deps

  const forget = (userId: string): void => revocations.apply([{ kind: 'user', subject: userId }])

  return {
    async register(email: string, password: string, device: Device): Promise<AuthResponse> {
      const id = randomUUID()
      const passwordHash = await passwords.hash(password)
      const link = links.make('verify', email, id)
      const signIn = sessions.signIn(id, ['password'], device)
      const flight = [q.insertUser({ id, email, passwordHash }), link.store, link.mail, signIn.statement] as const
      const [, , , answer] = await orTaken(db.fly(SYSTEM, flight), 'email already registered')
      deps.wakeMail()
      return only(signIn, answer)
    },

    async registerAnonymous(device: Device): Promise<AuthResponse> {
      const id = randomUUID()
      const signIn = sessions.signIn(id, ['anonymous'], device)
      const [, answer] = await db.fly(SYSTEM, [q.insertUser({ id, isAnonymous: true }), signIn.statement])
      return only(signIn, answer)
    },

    async me(userId: string): Promise<string> {
      const user = await db.fly(SYSTEM, q.userJson(userId))
      if (user === null) throw unauthorized('invalid or expired token', 'invalid_token')
      return user
    },

    async remove(userId: string): Promise<boolean> {
      const gone = await db.run(SYSTEM, q.deleteUser(userId))
      forget(userId)
      return gone > 0
    },

    async requestReset(email: string): Promise<void> {
      const [user] = await db.rows<{ id: string }>(SYSTEM, q.idByEmail(email))
      // A token is stored for an unknown address too, so that both cases cost one commit; nobody gets to see it.
      const { store, mail } = links.make('reset', email, user?.id ?? null)
      await db.run(SYSTEM, user ? [store, mail] : store)
      deps.wakeMail()
    },

    async confirmReset(token: string, password: string): Promise<void> {
      // Before the costly hash, so that made-up tokens cannot keep the workers busy.
      if ((await db.run(SYSTEM, isMailTokenGood('reset', token))) === 0) throw badMailToken('reset')
      const hash = await passwords.hash(password)
      const userId = await db.tx(SYSTEM, async (tx) => {
        const [spent] = await tx.rows<{ user_id: string | null }>(spendMailToken('reset', token))
        if (!spent?.user_id) throw badMailToken('reset')
        await proveAddress(tx, spent.user_id, foreign)
        await tx.run(sql`
          update svc.users set password_hash = ${hash}, updated_at = now() where id = ${spent.user_id}::uuid`)
        await tx.run(endAllOf(spent.user_id))
        await tx.run(forgiveFailures(spent.user_id))
        for (const statement of foreign.endGrants(spent.user_id)) await tx.run(statement)
        return spent.user_id
      })
      forget(userId)
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
      const { store, mail } = links.make('verify', user.email, userId)
      await db.run(SYSTEM, [store, mail])
      deps.wakeMail()
    },
  }
}
