import { notFound } from '../../core/errors.ts'
import { ANONYMOUS, asServer, type Identity } from '../../core/identity.ts'
import type { JobHandler, JobRun } from '../../core/job.ts'
import { grantOf } from '../../core/scope.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import { GiveUp } from '../../db/queue/queue.ts'
import { findFunctions, findOrRefresh } from '../../db/schema/lookup.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { buildCall } from './build-call.ts'
import { explainFailure } from './failure.ts'
import { resolveOverload, suppliedParameters } from './resolve.ts'
import { requireGeoJson } from './spatial-arguments.ts'

export type RpcDeps = {
  db: Db
  schema: SchemaCache
  /** Its reader is woken after calls that may write. */
  log: Pick<ChangeLog, 'appender' | 'wake'>
}

/** Much longer than for a request, because scheduled functions may take long. */
const TIMEOUT_MS = 1_800_000
const LOGGED_CHARACTERS = 200

/** The job type `sql`: calls a function of the exposed schemas under a named role. */
export const sqlJob =
  ({ db, schema, log: changes }: RpcDeps): JobHandler =>
  async ({ id, payload, signal, log }) => {
    const { name, args, role } = parsePayload(payload)
    const { who, isOtherRole } = callerOf(role, id)
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
      .fly(who, isOtherRole ? [becomeRole(role), call] : [call], { kind: 'apart', signal, timeoutMs: TIMEOUT_MS })
      .catch((error: unknown) => {
        throw explainFailure(error, fn.name)
      })
    changes.wake()
    log(fn.isVoid ? 'called' : `answered ${(answers.at(-1) ?? 'null').slice(0, LOGGED_CHARACTERS)}`)
  }

/** Request roles run on request connections, which cannot change to other roles; other roles are set from the server's own. */
function callerOf(role: string, jobId: string): { who: Identity; isOtherRole: boolean } {
  const name = `job ${jobId}`
  if (role === 'svc_anon') return { who: ANONYMOUS, isOtherRole: false }
  if (role !== 'svc_authenticated') return { who: asServer(name), isOtherRole: true }
  const grant = grantOf('*', [], null)
  const who: Identity = { kind: 'key', via: 'oauth', keyId: name, userId: null, email: '', grant, expiresAt: null }
  return { who, isOtherRole: false }
}

/** Lasts until the end of the flight. PostgreSQL checks whether the server may set the role. */
const becomeRole = (role: string): Sql => sql`select pg_catalog.set_config('role', ${role}, true)`

function parsePayload({ function: name, args = {}, role }: JobRun['payload']) {
  if (typeof name !== 'string' || name === '') throw new GiveUp('function is required')
  // `none` would reset the role to the server's own.
  if (typeof role !== 'string' || role === '' || role.toLowerCase() === 'none') throw new GiveUp('role is required')
  if (typeof args !== 'object' || args === null || Array.isArray(args)) throw new GiveUp('args must be an object')
  return { name, args, role }
}
