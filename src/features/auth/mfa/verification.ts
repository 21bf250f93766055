import { type AppError, unauthorized } from '../../../core/errors.ts'
import { type Identity, SYSTEM } from '../../../core/identity.ts'
import type { Db, Tx } from '../../../db/db.ts'
import * as accounts from '../accounts/sql.ts'
import type { Device } from '../sessions/device.ts'
import type { AuthResponse, FirstFactor, Sessions } from '../sessions/sessions.ts'
import { lockout } from './lockout.ts'
import type { FactorMethod } from './methods.ts'
import * as q from './sql.ts'

/** Somebody who passed the first factor. */
export type Pending = Extract<Identity, { kind: 'mfa' }>

/** The guard let only these through; this says so to the compiler. */
export function pendingOf(who: Identity): Pending {
  if (who.kind !== 'mfa') throw unauthorized('no MFA challenge pending', 'mfa_required')
  return who
}

/**
 * Resolves to nothing when the code is right, to the failure to tell when it was a wrong guess, which is counted.
 * Throws when nothing was guessed: then nothing is counted, and nothing changes.
 */
export type Check = (tx: Tx) => Promise<AppError | undefined>

export type Verification = ReturnType<typeof createVerification>

const invalid = () => unauthorized('invalid or expired token', 'invalid_token')

/** The account, for one caller at a time until the transaction ends. */
export async function lockAccount(tx: Tx, userId: string): Promise<accounts.Account> {
  const [account] = await tx.rows<accounts.Account>(accounts.lockAccount(userId))
  if (!account) throw invalid()
  return account
}

export function createVerification({ db, sessions }: { db: Db; sessions: Sessions }) {
  async function openSession(tx: Tx, who: Pending, second: string, device: Device): Promise<AuthResponse> {
    const [login] = await tx.rows<{ amr: [FirstFactor] }>(q.spendPendingLogin(who.pendingId, who.id))
    if (!login) throw invalid()
    const signIn = sessions.signIn(who.id, [login.amr[0], second], device)
    const response = signIn.finish(await tx.fly(signIn.statement))
    if (!response) throw invalid()
    return response
  }

  return {
    /** For a challenge: work on the account unless it is locked out. */
    prepare: <T>(userId: string, work: (tx: Tx) => Promise<T>): Promise<T> =>
      db.tx(SYSTEM, async (tx) => {
        await lockAccount(tx, userId)
        await lockout.refuse(tx, userId)
        return work(tx)
      }),

    /** One try at a second factor. Its count and its session are committed before anybody learns how it went. */
    async attempt(
      who: Pending,
      second: FactorMethod | 'webauthn' | 'backup_code',
      device: Device,
      check: Check,
    ): Promise<AuthResponse> {
      const { wrong, response } = await db.tx(SYSTEM, async (tx) => {
        await lockAccount(tx, who.id)
        await lockout.refuse(tx, who.id)
        const wrong = await check(tx)
        if (wrong) {
          await lockout.countFailure(tx, who.id)
          return { wrong }
        }
        const response = await openSession(tx, who, second, device)
        await lockout.clear(tx, who.id)
        return { response }
      })
      if (wrong) throw wrong
      return response
    },
  }
}
