import type { AppError } from '../../core/errors.ts'
import { type PendingIdentity, SYSTEM } from '../../core/identity.ts'
import type { Db, Tx } from '../../db/db.ts'
import { invalidToken } from '../../identity/errors.ts'
import type { AuthResponse, Device, FirstFactor, StartSession } from '../../identity/session.ts'
import { lockAccount } from '../../identity/users.ts'
import { lockout } from './lockout.ts'
import type { FactorMethod } from './methods.ts'
import * as q from './sql.ts'

/**
 * Resolves to undefined if the code is right, and to the error to report after a wrong guess, which is counted. Throws
 * if nothing was guessed; then nothing is counted or changed.
 */
type Check = (tx: Tx) => Promise<AppError | undefined>

export type Verification = ReturnType<typeof createVerification>

export function createVerification({ db, startSession }: { db: Db; startSession: StartSession }) {
  async function openSession(tx: Tx, who: PendingIdentity, second: string, device: Device): Promise<AuthResponse> {
    const [login] = await tx.rows<{ amr: [FirstFactor] }>(q.spendPendingLogin(who.pendingId, who.id))
    if (!login) throw invalidToken()
    return startSession(who.id, [login.amr[0], second], device).open(tx)
  }

  return {
    /** For a challenge: runs `work` with the account locked, unless it is locked out. */
    prepare: <T>(userId: string, work: (tx: Tx) => Promise<T>): Promise<T> =>
      db.tx(SYSTEM, async (tx) => {
        await lockAccount(tx, userId)
        await lockout.refuse(tx, userId)
        return work(tx)
      }),

    /** One try at a second factor. Count and session are committed before the answer is sent. */
    async attempt(
      who: PendingIdentity,
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
