import { AppError, notFound } from '../../core/errors.ts'
import { SYSTEM, type UserIdentity } from '../../core/identity.ts'
import type { Tx } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import { invalidToken } from '../../identity/errors.ts'
import { type AccountData, keepAccountData } from '../../identity/hooks.ts'
import { linkedIdentities, type RemovedIdentity, removeIdentity } from '../../identity/linked-identities.ts'
import { requireOwnFactor } from '../../identity/second-factor.ts'
import { idByEmail, lockCaller } from '../../identity/users.ts'
import { type ForeignIdentity, keyIdOf, type ReadForeignToken } from './issuers.ts'
import * as q from './sql.ts'

type Deps = Pick<IdentityDeps, 'db' | 'appName' | 'beforeSignUp' | 'queueMail' | 'wakeMail' | 'onRevoked'> & {
  read: ReadForeignToken
  /** Makes an anonymous account one that is not. */
  linkAnonymous: (id: string, to: { email: string | undefined; emailVerified: boolean }) => Sql
  /** Drops what is cached of a bearer's identity in this process at once. */
  onKeyRevoked: (keyId: string) => void
}

export type OwnIdentities = ReturnType<typeof createOwnIdentities>

/** Identities elsewhere of a signed-in user. */
export function createOwnIdentities(deps: Deps) {
  const { db } = deps

  /** Runs with the account locked and tells its owner. */
  async function change(
    user: UserIdentity,
    work: (tx: Tx) => Promise<{ changed: RemovedIdentity; whatHappened: string } | undefined>,
  ): Promise<void> {
    const keyId = await db.tx(SYSTEM, async (tx) => {
      const { email } = await lockCaller(tx, user)
      await requireOwnFactor(tx, user)
      const done = await work(tx)
      if (!done) return undefined
      const { provider, subject } = done.changed
      const keyId = keyIdOf({ issuer: provider, subject })
      await tx.run(sql`select svc.revoke('key', ${keyId})`)
      const Notice = `A sign-in at ${provider} was ${done.whatHappened} your ${deps.appName} account.`
      if (email !== '') await tx.run(deps.queueMail('auth.security_notice', email, { Notice }))
      return keyId
    })
    if (keyId === undefined) return
    deps.wakeMail()
    deps.onKeyRevoked(keyId)
  }

  /** As at first sight, an address that is taken is left out. */
  async function upgrade(tx: Tx, { id }: UserIdentity, { email }: ForeignIdentity, data: AccountData): Promise<void> {
    const isFree = email !== '' && (await tx.fly(idByEmail(email))) === null
    const to = { email: isFree ? email : undefined, emailVerified: isFree }
    if ((await tx.run(deps.linkAnonymous(id, to))) === 0) return
    await keepAccountData(tx, id, data)
    await tx.run(sql`select svc.revoke('user', ${id})`)
  }

  return {
    list: async (userId: string): Promise<string> =>
      (await db.fly(SYSTEM, sql`select (${linkedIdentities(sql`${userId}::uuid`)})::text`)) ?? '[]',

    /** To the account of the caller's own session; nothing else joins the two. */
    async link(user: UserIdentity, token: string, nowMs: number): Promise<void> {
      const foreign = await deps.read(token, nowMs)
      if (!foreign) throw invalidToken()
      const { issuer: provider, subject, email } = foreign
      const signUp = { method: 'issuer', provider, subject, email } as const
      const data = user.isAnonymous ? await deps.beforeSignUp?.(signUp) : undefined
      await change(user, async (tx) => {
        if ((await tx.run(q.linkIdentity(foreign, user.id))) === 0) {
          if ((await tx.run(q.isLinkedTo(foreign, user.id))) > 0) return undefined
          throw new AppError('conflict', 'identity is linked to another account')
        }
        if (user.isAnonymous) await upgrade(tx, user, foreign, data ?? {})
        return { changed: { provider, subject }, whatHappened: 'linked to' }
      })
      if (user.isAnonymous) deps.onRevoked(user.id)
    },

    remove: (user: UserIdentity, id: string): Promise<void> =>
      change(user, async (tx) => {
        const [changed] = await tx.rows<RemovedIdentity>(removeIdentity(user.id, id))
        if (!changed) throw notFound('identity not found', 'identity_not_found')
        if ((await tx.run(q.hasWayIn(user.id))) === 0)
          throw new AppError('last_credential', 'the last way to sign in cannot be removed')
        return { changed, whatHappened: 'removed from' }
      }),
  }
}
