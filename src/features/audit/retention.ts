import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { inSlices } from '../../db/in-slices.ts'
import { forgetOldAudit } from './sql.ts'

const SLICE = 5_000

export const forgetAudit = (db: Db, retentionDays: number): Promise<number> =>
  inSlices(SLICE, () => db.run(SYSTEM, forgetOldAudit(retentionDays, SLICE), { lane: 'slow' }))
