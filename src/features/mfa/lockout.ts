import type { Tx } from '../../db/db.ts'
import { tooManyFailures } from '../../identity/errors.ts'
import * as q from './sql.ts'

/** Shared by all methods, so that switching methods gives no extra tries. */
const LIMIT = { max: 15, seconds: 3600, lockSeconds: 1800 }

/** The caller must hold the account's lock. */
export const lockout = {
  async refuse(tx: Tx, userId: string): Promise<void> {
    const [lock] = await tx.rows<{ seconds: number | null }>(q.lockedSeconds(userId))
    if (lock?.seconds && lock.seconds > 0) throw tooManyFailures(lock.seconds)
  },
  countFailure: (tx: Tx, userId: string): Promise<number> => tx.run(q.countFactorFailure(userId, LIMIT)),
  clear: (tx: Tx, userId: string): Promise<number> => tx.run(q.clearFactorFailures(userId)),
}
