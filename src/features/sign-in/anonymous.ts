import { randomUUID } from 'node:crypto'
import { AppError } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { EMAIL_TAKEN, orEmailTaken } from '../../identity/errors.ts'
import { type AccountData, storeAccountData } from '../../identity/hooks.ts'
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
    more: readonly Sql[],
  ): Promise<AuthResponse> {
    const work = db.tx(SYSTEM, async (tx) => {
      if ((await tx.run(credentials)) === 0) throw notAnonymous()
      for (const statement of more) await tx.run(statement)
      await tx.run(endSessionsOf(userId))
      return deps.startSession(userId, [method], device).open(tx, notAnonymous)
    })
    const answer = await orEmailTaken(work, EMAIL_TAKEN)
    deps.onRevoked(userId)
    deps.wakeMail()
    return answer()
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
      const data = await deps.beforeSignUp?.({ method: 'anonymous', device })
      const id = randomUUID()
      const session = deps.startSession(id, ['anonymous'], device)
      const [, answer] = await db.fly(SYSTEM, [insertUser({ id, isAnonymous: true, ...data }), session.statement])
      return session.finish(answer)
    },

    linkEmail(userId: string, email: string, password: string, device: Device): Promise<AuthResponse> {
      return linking.run(userId, async () => {
        await requireFree(userId, email)
        const data = await deps.beforeSignUp?.({ method: 'password', email, device })
        const passwordHash = await deps.passwords.hash(password)
        const mailed = deps.mailLink('verify', email, userId)
        const credentials = linkAnonymous(userId, { email, passwordHash, emailVerified: false })
        return link(userId, 'password', device, credentials, withData(userId, data, mailed))
      })
    },

    async linkProvider(userId: string, profile: Profile, device: Device): Promise<AuthResponse> {
      const { email, emailVerified, provider, subject } = profile
      const data = await deps.beforeSignUp?.({ method: 'oauth', provider, subject, email, device })
      const credentials = linkAnonymous(userId, { email, emailVerified: emailVerified && email !== undefined })
      const linked = sql`insert into svc.identities (provider, subject, user_id)
        values (${provider}, ${subject}, ${userId}::uuid)`
      return link(userId, 'oauth', device, credentials, withData(userId, data, linked))
    },
  }
}

function withData(userId: string, data: AccountData | undefined, statement: Sql): Sql[] {
  const stored = data && storeAccountData(userId, data)
  return stored ? [stored, statement] : [statement]
}
