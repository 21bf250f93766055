import { AppError, notFound } from '../../core/errors.ts'
import { SYSTEM, type UserIdentity } from '../../core/identity.ts'
import type { Db, Tx } from '../../db/db.ts'
import { type EndsSessions, requireOwnFactor } from '../../identity/second-factor.ts'
import { type Account, lockCaller } from '../../identity/users.ts'
import { type FactorMethod, MFA_METHODS } from './methods.ts'
import * as q from './sql.ts'

export type Enrolment = ReturnType<typeof createEnrolment>

// Both calls hold the account's lock, so that their checks stay true until the factor is stored.
export function createEnrolment({ db, endOthers, onSessionsEnded }: { db: Db } & EndsSessions) {
  return {
    /** Replaces a pending enrolment of this method. */
    start: <T>(
      user: UserIdentity,
      method: FactorMethod,
      factor: Omit<q.NewFactor, 'method'>,
      then: (tx: Tx, account: Account) => Promise<T>,
    ): Promise<T> =>
      db.tx(SYSTEM, async (tx) => {
        const account = await lockCaller(tx, user)
        const [enrolled] = await tx.rows(q.enrolledFactor(user.id, method))
        if (enrolled) throw new AppError('already_enrolled', `${MFA_METHODS[method].name} MFA already enrolled`)
        await requireOwnFactor(tx, user)
        await tx.run(q.dropPending(user.id, method))
        await tx.run(q.insertFactor(user.id, { method, ...factor }))
        return then(tx, account)
      }),

    /** `check` resolves to nothing when the code is right; a wrong one is counted before it is refused. */
    async confirm(
      user: UserIdentity,
      method: FactorMethod,
      check: (tx: Tx, pending: q.Factor) => Promise<AppError | undefined>,
    ): Promise<void> {
      const { wrong, ended } = await db.tx(SYSTEM, async (tx) => {
        await lockCaller(tx, user)
        const [pending] = await tx.rows<q.Factor>(q.pendingFactor(user.id, method))
        if (!pending) throw notFound(`no pending ${MFA_METHODS[method].pending} found`, 'enrolment_not_found')
        const isFirst = await requireOwnFactor(tx, user)
        const wrong = await check(tx, pending)
        if (wrong) return { wrong, ended: [] }
        await tx.run(q.confirmFactor(pending.id))
        return { wrong, ended: isFirst ? await endOthers(tx, user) : [] }
      })
      onSessionsEnded(ended)
      if (wrong) throw wrong
    },
  }
}
