import { randomUUID } from 'node:crypto'
import { AppError } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Tx } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { EMAIL_TAKEN, orEmailTaken } from '../../identity/errors.ts'
import type { AuthResponse, Device, FirstFactor } from '../../identity/session.ts'
import { endSessionsOf, insertUser } from '../../identity/users.ts'
import type { SignInDeps } from './deps.ts'
import { KeyedSemaphore } from './keyed-semaphore.ts'
import type { Profile } from './providers/profile.ts'
import { linkAnonymous } from './sql.ts'

export const notAnonymous = () => new AppError('account_not_anonymous', 'only anonymous accounts can link credentials')

/** Accounts without credentials. Linking credentials later keeps the id, and so everything the account owns. */
export function createAnonymousAccounts(deps: SignInDeps) {
  const { db } = deps
  // An account is linked once, so parallel calls must not fill the hash queue.
  const linking = new KeyedSemaphore(1, 32)

  async function link(
    userId: string,
    method: FirstFactor,
    device: Device,
    credentials: Sql,
    more: (tx: Tx) => Promise<unknown>,
  ): Promise<AuthResponse> {
    const work = db.tx(SYSTEM, async (tx) => {
      if ((await tx.run(credentials)) === 0) throw notAnonymous()
      await more(tx)
      await tx.run(endSessionsOf(userId))
      return deps.startSession(userId, [method], device).open(tx, notAnonymous)
    })
    const response = await orEmailTaken(work, EMAIL_TAKEN)
    deps.onRevoked(userId)
    deps.wakeMail()
    return response
  }

  /** An early check before the expensive hash; the linking statements check again. */
  async function requireFree(userId: string, email: string): Promise<void> {
    const [found] = await db.rows<{ anonymous: boolean; taken: boolean }>(
      SYSTEM,
      sql`select exists (select from svc.users where id = ${userId}::uuid and is_anonymous) as anonymous,
            exists (select from svc.users where email = ${email}) as taken`,
    )
    if (!found?.anonymous) throw notAnonymous()
    if (found.taken) throw new AppError('account_taken', EMAIL_TAKEN)
  }

  return {
    async register(device: Device): Promise<AuthResponse> {
      const id = randomUUID()
      const session = deps.startSession(id, ['anonymous'], device)
      const [, answer] = await db.fly(SYSTEM, [insertUser({ id, isAnonymous: true }), session.statement])
      return session.finish(answer)
    },

    linkEmail(userId: string, email: string, password: string, device: Device): Promise<AuthResponse> {
      return linking.run(userId, async () => {
        await requireFree(userId, email)
        const passwordHash = await deps.passwords.hash(password)
        const mailed = deps.mailLink('verify', email, userId)
        const credentials = linkAnonymous(userId, { email, passwordHash, emailVerified: false })
        return link(userId, 'password', device, credentials, (tx) => tx.run(mailed))
      })
    },

    linkProvider(userId: string, profile: Profile, device: Device): Promise<AuthResponse> {
      const { email, emailVerified } = profile
      const credentials = linkAnonymous(userId, { email, emailVerified: emailVerified && email !== undefined })
      return link(userId, 'oauth', device, credentials, (tx) =>
        tx.run(sql`insert into svc.identities (provider, subject, user_id)
                   values (${profile.provider}, ${profile.subject}, ${userId}::uuid)`),
      )
    },
  }
}
