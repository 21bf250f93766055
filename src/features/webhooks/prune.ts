import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { inSlices } from '../../db/in-slices.ts'
import { pruneDeliveries } from './sql.ts'

const SLICE = 5_000

export const prune = (db: Db, retentionSeconds: number): Promise<number> =>
  inSlices(SLICE, () => db.run(SYSTEM, pruneDeliveries(retentionSeconds, SLICE)))
