import { randomUUID } from 'node:crypto'
import { SYSTEM, type UserIdentity } from '../../core/identity.ts'
import type { Tx } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import { invalidToken, orEmailTaken } from '../../identity/errors.ts'
import {
  badMailToken,
  type MailPurpose,
  mailedAt,
  ownerOfMailToken,
  spendMailToken,
} from '../../identity/mail-links.ts'
import { requireOwnFactor } from '../../identity/second-factor.ts'
import type { AuthResponse, Device } from '../../identity/session.ts'
import { insertUser, lockAccount, lockCaller, userJson } from '../../identity/users.ts'
import * as q from './sql.ts'

export type Accounts = ReturnType<typeof accountsOf>

type Needed =
  | 'db'
  | 'passwords'
  | 'startSession'
  | 'beforeSignUp'
  | 'mailLink'
  | 'wakeMail'
  | 'proveAddress'
  | 'onRevoked'

export type AccountDeps = Pick<IdentityDeps, Needed> & {
  /** Statements that end sessions, grants and keys of the old password, and reset its failed attempts. */
  endAccess: (userId: string) => readonly Sql[]
  /** Statements that drop factors, passkeys and linked providers added since a moment. */
  dropAddedSince: (userId: string, since: string) => readonly Sql[]
}

export function accountsOf(deps: AccountDeps) {
  const { db, passwords, mailLink } = deps

  async function ownerOf(purpose: MailPurpose, token: string): Promise<string> {
    const userId = await db.fly(SYSTEM, ownerOfMailToken(purpose, token))
    if (userId === null) throw badMailToken(purpose)
    return userId
  }

  /** Runs `work` in the transaction that spends the link, with the account locked before it. */
  const spend = (
    purpose: MailPurpose,
    token: string,
    userId: string,
    work: (tx: Tx, email: string, emailBefore: string) => Promise<void>,
  ): Promise<void> =>
    db.tx(SYSTEM, async (tx) => {
      const account = await lockAccount(tx, userId, () => badMailToken(purpose))
      const [spent] = await tx.rows<{ email: string }>(spendMailToken(purpose, token))
      if (!spent) throw badMailToken(purpose)
      await work(tx, spent.email, account.email)
    })

  async function me(userId: string): Promise<string> {
    const user = await db.fly(SYSTEM, userJson(userId), { kind: 'read' })
    if (user === null) throw invalidToken()
    return user
  }

  return {
    async register(email: string, password: string, device: Device): Promise<AuthResponse> {
      const data = await deps.beforeSignUp?.({ method: 'password', email, device })
      const id = randomUUID()
      const passwordHash = await passwords.hash(password)
      const session = deps.startSession(id, ['password'], device)
      const made = insertUser({ id, email, passwordHash, ...data })
      const flight = [made, mailLink('verify', email, id), session.statement] as const
      const [, , answer] = await orEmailTaken(db.fly(SYSTEM, flight), 'email already registered')
      deps.wakeMail()
      return session.finish(answer)
    },

    me,

    /** A new address counts once the link mailed to it was opened. Metadata is replaced as a whole. */
    async update(user: UserIdentity, { email, metadata }: { email?: string; metadata?: string }): Promise<string> {
      await db.tx(SYSTEM, async (tx) => {
        const account = await lockCaller(tx, user)
        if (metadata !== undefined) await tx.run(q.setMetadata(user.id, metadata))
        if (email === undefined || email === account.email) return
        await requireOwnFactor(tx, user)
        await tx.run(mailLink('email_change', email, user.id))
      })
      deps.wakeMail()
      return me(user.id)
    },

    async confirmEmailChange(token: string): Promise<void> {
      const userId = await ownerOf('email_change', token)
      await spend('email_change', token, userId, async (tx, email, before) => {
        await orEmailTaken(tx.run(q.setEmail(userId, email)), 'email already registered')
        if (before !== '') await tx.run(mailLink('email_revert', before, userId))
      })
      deps.wakeMail()
      deps.onRevoked(userId)
    },

    /** By who reads the mail of the former address: what the account was opened with meanwhile ends. */
    async revertEmailChange(token: string): Promise<void> {
      const userId = await ownerOf('email_revert', token)
      const since = (await db.fly(SYSTEM, mailedAt('email_revert', token))) ?? 'infinity'
      await spend('email_revert', token, userId, async (tx, email) => {
        await orEmailTaken(tx.run(q.setEmail(userId, email)), 'email already registered')
        for (const statement of [...deps.endAccess(userId), ...deps.dropAddedSince(userId, since)])
          await tx.run(statement)
        await tx.run(q.endRevertsSince(userId, since))
        await tx.run(q.dropPassword(userId))
        await tx.run(mailLink('reset', email))
      })
      deps.wakeMail()
      deps.onRevoked(userId)
    },

    async remove(user: UserIdentity): Promise<void> {
      await db.tx(SYSTEM, async (tx) => {
        await lockCaller(tx, user)
        await requireOwnFactor(tx, user)
        await tx.run(q.deleteUser(user.id))
      })
      deps.onRevoked(user.id)
    },

    async requestReset(email: string): Promise<void> {
      await db.run(SYSTEM, mailLink('reset', email))
      deps.wakeMail()
    },

    async confirmReset(token: string, password: string): Promise<void> {
      // Checked before the expensive hash, so that invented tokens cannot occupy the workers.
      const reset = await db.fly(SYSTEM, ownerOfMailToken('reset', token))
      const userId = reset ?? (await db.fly(SYSTEM, ownerOfMailToken('invite', token)))
      if (userId === null) throw badMailToken('reset')
      const purpose = reset === null ? 'invite' : 'reset'
      const hash = await passwords.hash(password)
      await spend(purpose, token, userId, async (tx) => {
        await deps.proveAddress(tx, userId)
        await tx.run(sql`update svc.users set password_hash = ${hash}, updated_at = now() where id = ${userId}::uuid`)
        for (const statement of deps.endAccess(userId)) await tx.run(statement)
      })
      deps.onRevoked(userId)
    },

    async verify(token: string): Promise<void> {
      const userId = await ownerOf('verify', token)
      await spend('verify', token, userId, async (tx, email) => {
        const verified = await tx.run(sql`
          update svc.users set email_verified_at = coalesce(email_verified_at, now()), updated_at = now()
          where id = ${userId}::uuid and email = ${email}`)
        if (verified === 0) throw badMailToken('verify')
      })
    },

    async resendVerification(userId: string): Promise<void> {
      const [user] = await db.rows<{ email: string }>(
        SYSTEM,
        sql`select email from svc.users where id = ${userId}::uuid and email is not null and email_verified_at is null`,
      )
      if (!user) return
      await db.run(SYSTEM, mailLink('verify', user.email, userId))
      deps.wakeMail()
    },
  }
}
