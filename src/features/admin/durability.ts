import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { sql } from '../../db/sql.ts'

/** Where an acknowledged write is: on this PostgreSQL alone, or also on a standby's disk, or visible there. */
export const DURABILITIES = ['local', 'remote flush', 'remote apply'] as const
export type Durability = (typeof DURABILITIES)[number]

/** `remote_write` is in the memory of a standby only, which is no more than local. */
const QUERY = sql`
  select case
    when current_setting('synchronous_standby_names') = '' then 'local'
    when current_setting('synchronous_commit') = 'remote_apply' then 'remote apply'
    when current_setting('synchronous_commit') = 'on' then 'remote flush'
    else 'local' end`

export const durabilityOf = async (db: Db): Promise<Durability> => (await db.fly(SYSTEM, QUERY)) as Durability
