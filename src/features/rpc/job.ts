import { notFound } from '../../core/errors.ts'
import { ANONYMOUS, type Identity } from '../../core/identity.ts'
import type { JobHandler, JobRun } from '../../core/job.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import { GiveUp } from '../../db/queue/queue.ts'
import { findFunctions, findOrRefresh } from '../../db/schema/lookup.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { buildCall } from './build-call.ts'
import { explainFailure } from './failure.ts'
import { suppliedParameters, resolveOverload } from './resolve.ts'
import { requireGeoJson } from './spatial-arguments.ts'

export type RpcDeps = {
  db: Db
  schema: SchemaCache
  /** Its reader is woken when something may have been written. */
  log: Pick<ChangeLog, 'appender' | 'wake'>
}

/** Far beyond a request's time: what people put into a nightly function may take a while. */
const TIMEOUT_MS = 1_800_000
const LOGGED_CHARACTERS = 200

/** The job type `sql`: calls a function of the exposed schemas under a named role. */
export const sqlJob =
  ({ db, schema, log: changes }: RpcDeps): JobHandler =>
  async ({ id, payload, signal, log }) => {
    const { name, args, role } = wishOf(payload)
    const { who, isOthers } = callerOf(role, id)
    const found = await findOrRefresh(schema, (snapshot) => {
      const candidates = findFunctions(snapshot, name)
      return candidates.length > 0 ? { snapshot, candidates } : undefined
    })
    if (!found) throw notFound(`function not found: ${name}`, 'function_not_found')
    const { snapshot, candidates } = found
    const fn = resolveOverload(candidates, Object.keys(args))
    requireGeoJson(fn, args as Readonly<Record<string, unknown>>)
    const call = buildCall(snapshot, fn, JSON.stringify(args), suppliedParameters(fn, Object.keys(args)), undefined)
    const answers = await db
      .fly(who, isOthers ? [becomeRole(role), call] : [call], { kind: 'apart', signal, timeoutMs: TIMEOUT_MS })
      .catch((error: unknown) => {
        throw explainFailure(error, fn.name)
      })
    changes.wake()
    log(fn.isVoid ? 'called' : `answered ${(answers.at(-1) ?? 'null').slice(0, LOGGED_CHARACTERS)}`)
  }

/** The roles of requests run on callers' connections, which lead nowhere else; another role is become from the server's. */
function callerOf(role: string, jobId: string): { who: Identity; isOthers: boolean } {
  const name = `job ${jobId}`
  if (role === 'svc_anon') return { who: ANONYMOUS, isOthers: false }
  if (role !== 'svc_authenticated') return { who: { kind: 'admin', tokenId: name, expiresAt: 0 }, isOthers: true }
  const grant = { scope: '*', tables: [], appId: null } as const
  const who: Identity = { kind: 'key', via: 'oauth', keyId: name, userId: null, email: '', grant, expiresAt: null }
  return { who, isOthers: false }
}

/** Until the end of the flight, and PostgreSQL decides whether the server may. */
const becomeRole = (role: string): Sql => sql`select pg_catalog.set_config('role', ${role}, true)`

function wishOf({ function: name, args = {}, role }: JobRun['payload']) {
  if (typeof name !== 'string' || name === '') throw new GiveUp('function is required')
  // `none` is not a role: it would be the server's own.
  if (typeof role !== 'string' || role === '' || role.toLowerCase() === 'none') throw new GiveUp('role is required')
  if (typeof args !== 'object' || args === null || Array.isArray(args)) throw new GiveUp('args must be an object')
  return { name, args, role }
}
