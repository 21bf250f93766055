import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import type { Privilege, Table } from '../../db/schema/snapshot.ts'
import { Ident, sql } from '../../db/sql.ts'

/** No table of the API: its policies say who may join channels (SELECT) and send to them (INSERT). */
export const CHANNELS = 'svc.channels'
/** Nor is this: its policies say who may do what with files, in buckets whose access is `policies`. */
const FILES = 'svc.objects'

const OWN: ReadonlySet<string> = new Set([CHANNELS, FILES])
/** Tables of ours that take policies of the operator. */
export const isOwnTable = (schema: string, name: string): boolean => OWN.has(`${schema}.${name}`)

/** Of ours: it keeps policies from opening other buckets. */
export const isOwnPolicy = (schema: string, table: string, policy: string): boolean =>
  `${schema}.${table}` === FILES && policy === 'policies_buckets_only'

const ALL: ReadonlySet<Privilege> = new Set(['select', 'insert', 'update', 'delete'])

/** As the snapshot would have it. Policies alone decide, so no privilege is missing. */
export async function channelsTable(db: Db): Promise<Table> {
  const oid = Number(await db.fly(SYSTEM, sql`select 'svc.channels'::regclass::oid::text`))
  return {
    ...{ schema: 'svc', name: 'channels', ident: new Ident('svc', 'channels'), oid, kind: 'table', comment: undefined },
    ...{ columns: new Map(), primaryKey: [], foreignKeys: [], relations: [], checkConstraints: [], indexes: [] },
    ...{ uniqueKeys: [], rlsEnabled: true, rlsPolicies: [], privileges: { svc_anon: ALL, svc_authenticated: ALL } },
    wholeFor: new Set(['none', 'svc_anon', 'svc_authenticated']),
    ...{ insertable: true, updatable: false, hasRules: false, watched: false, runsUserCode: false },
  }
}
