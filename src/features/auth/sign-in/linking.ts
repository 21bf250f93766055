import { AppError } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Tx } from '../../../db/db.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import { type AccountDeps, orTaken } from '../accounts/accounts.ts'
import { linkAnonymous } from '../accounts/sql.ts'
import type { Profile } from '../providers/profile.ts'
import type { Device } from '../sessions/device.ts'
import type { AuthResponse, FirstFactor } from '../sessions/sessions.ts'
import { endAllOf } from '../sessions/sql.ts'
import { createGate } from './gate.ts'

export type Linking = ReturnType<typeof createLinking>

const TAKEN = 'email already belongs to another account'

export const notAnonymous = () => new AppError('account_not_anonymous', 'only anonymous accounts can link credentials')

/** An anonymous account gets credentials and keeps its id, and with it everything it owns. */
export function createLinking(deps: AccountDeps) {
  const { db, revocations, passwords, sessions, links } = deps
  // An account is linked once: whoever asks many times at once must not fill the queue of hashes.
  const oneByOne = createGate(1, 32)

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
      await tx.run(endAllOf(userId))
      const signIn = sessions.signIn(userId, [method], device)
      return signIn.finish(await tx.fly(signIn.statement))
    })
    const response = await orTaken(work, TAKEN)
    revocations.apply([{ kind: 'user', subject: userId }])
    deps.wakeMail()
    if (!response) throw notAnonymous()
    return response
  }

  /** Before the costly hash, so that a refusal costs little; the statements that link are what decides. */
  async function requireFree(userId: string, email: string): Promise<void> {
    const [found] = await db.rows<{ anonymous: boolean; taken: boolean }>(
      SYSTEM,
      sql`select exists (select from svc.users where id = ${userId}::uuid and is_anonymous) as anonymous,
            exists (select from svc.users where email = ${email}) as taken`,
    )
    if (!found?.anonymous) throw notAnonymous()
    if (found.taken) throw new AppError('account_taken', TAKEN)
  }

  return {
    email(userId: string, email: string, password: string, device: Device): Promise<AuthResponse> {
      return oneByOne(userId, async () => {
        await requireFree(userId, email)
        const passwordHash = await passwords.hash(password)
        const mailed = links.make('verify', email, userId)
        const credentials = linkAnonymous(userId, { email, passwordHash, emailVerified: false })
        return link(userId, 'password', device, credentials, async (tx) => {
          await tx.run(mailed.store)
          await tx.run(mailed.mail)
        })
      })
    },

    provider(userId: string, profile: Profile, device: Device): Promise<AuthResponse> {
      const { email, emailVerified } = profile
      const credentials = linkAnonymous(userId, { email, emailVerified: emailVerified && email !== undefined })
      return link(userId, 'oauth', device, credentials, (tx) =>
        tx.run(sql`insert into svc.identities (provider, subject, user_id)
                   values (${profile.provider}, ${profile.subject}, ${userId}::uuid)`),
      )
    },
  }
}
