import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { deactivateStale } from './sql.ts'

const STALE_AFTER_DAYS = 270

export const deactivateStaleDevices = (db: Db): Promise<number> => db.run(SYSTEM, deactivateStale(STALE_AFTER_DAYS))
