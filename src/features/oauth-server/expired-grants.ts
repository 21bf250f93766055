import type { Db } from '../../db/db.ts'
import { sweepAll } from '../../db/sweep.ts'
import { dropExpired } from './sql.ts'

export const dropExpiredGrants = (db: Db): Promise<number> => sweepAll(db, ...dropExpired)
