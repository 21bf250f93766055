import type pg from 'pg'
import { isRolledBack } from '../../../db/pg-errors.ts'

/**
 * Runs `work` within a transaction that goes on without it: of what failed nothing stays, and the error is returned. A deadlock
 * with requests is no answer: it is thrown, and changeSchema() begins again.
 */
export async function withSavepoint(client: pg.Client, work: () => Promise<unknown>): Promise<Error | undefined> {
  await client.query('savepoint step')
  try {
    await work()
    await client.query('release savepoint step')
    return undefined
  } catch (error) {
    if (isRolledBack(error)) throw error
    await client.query('rollback to savepoint step; release savepoint step')
    return error as Error
  }
}
