import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { dropExpired } from './sql.ts'

export async function dropExpiredGrants(db: Db): Promise<number> {
  let sum = 0
  for (const statement of dropExpired) sum += await db.run(SYSTEM, statement)
  return sum
}
