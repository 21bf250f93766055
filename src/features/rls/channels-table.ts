import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import type { Privilege, Table } from '../../db/schema/snapshot.ts'
import { Ident, sql } from '../../db/sql.ts'

/** No table of the API: its policies say who may join channels (SELECT) and send to them (INSERT). */
export const isChannels = (schema: string, name: string): boolean => schema === 'svc' && name === 'channels'
export const CHANNELS = 'svc.channels'

const ALL: ReadonlySet<Privilege> = new Set(['select', 'insert', 'update', 'delete'])

/** As the snapshot would have it. Policies alone decide, so no privilege is missing. */
export async function channelsTable(db: Db): Promise<Table> {
  const oid = Number(await db.fly(SYSTEM, sql`select 'svc.channels'::regclass::oid::text`))
  return {
    ...{ schema: 'svc', name: 'channels', ident: new Ident('svc', 'channels'), oid, kind: 'table', comment: undefined },
    ...{ columns: new Map(), primaryKey: [], foreignKeys: [], relations: [], checkConstraints: [], indexes: [] },
    ...{ uniqueKeys: [], rlsEnabled: true, rlsPolicies: [], privileges: { svc_anon: ALL, svc_authenticated: ALL } },
    ...{ insertable: true, updatable: false, hasRules: false, watched: false, runsUserCode: false },
  }
}
