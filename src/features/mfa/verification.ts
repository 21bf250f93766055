import { type PendingIdentity, SYSTEM } from '../../core/identity.ts'
import type { Db, Tx } from '../../db/db.ts'
import { invalidToken } from '../../identity/errors.ts'
import type { Verification } from '../../identity/second-factor.ts'
import type { Device, FirstFactor, OpenedSession, StartSession } from '../../identity/session.ts'
import { lockAccount } from '../../identity/users.ts'
import { lockout } from './lockout.ts'
import * as q from './sql.ts'

export function createVerification({ db, startSession }: { db: Db; startSession: StartSession }): Verification {
  async function openSession(tx: Tx, who: PendingIdentity, second: string, device: Device): Promise<OpenedSession> {
    const [login] = await tx.rows<{ amr: [FirstFactor] }>(q.spendPendingLogin(who.pendingId, who.id))
    if (!login) throw invalidToken()
    return startSession(who.id, [login.amr[0], second], device).open(tx)
  }

  const prepare: Verification['prepare'] = (userId, work) =>
    db.tx(SYSTEM, async (tx) => {
      await lockAccount(tx, userId)
      await lockout.refuse(tx, userId)
      return work(tx)
    })

  return {
    prepare,

    /** Count and session are committed before the answer is sent. */
    async attempt(who, second, device, check) {
      const { wrong, answer } = await prepare(who.id, async (tx) => {
        const wrong = await check(tx)
        if (wrong) {
          await lockout.countFailure(tx, who.id)
          return { wrong }
        }
        const answer = await openSession(tx, who, second, device)
        await lockout.clear(tx, who.id)
        return { answer }
      })
      if (wrong) throw wrong
      return answer()
    },
  }
}
