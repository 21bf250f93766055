import type { CancelSignal } from '../../core/cancel-signal.ts'
import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { asReader, SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Appender, ChangeAction } from '../../db/changes/append.ts'
import { nameRequest } from '../../db/changes/sql.ts'
import type { AsBytes, FlyOptions, Relayed } from '../../db/db.ts'
import type { TriesWrites } from '../../db/history/dry-run.ts'
import { SqlCache } from '../../db/rows/sql-cache.ts'
import { nearFunction } from '../../db/schema/did-you-mean.ts'
import { findFunctions, findOrRefresh, findTable, mayDo, mayExecute } from '../../db/schema/lookup.ts'
import type { Fn, Privilege, Schema } from '../../db/schema/snapshot.ts'
import { keyFor, type Viewer, viewerOf } from '../../db/schema/viewer.ts'
import { Slots, sql } from '../../db/sql.ts'
import { dryRunReply, isDryRun } from '../../http/dry-run.ts'
import type { Feature } from '../../http/feature.ts'
import { keepReply } from '../../http/once.ts'
import { type Call, jsonText, noContent, type Reply, route } from '../../http/route.ts'
import { buildCall, type ChangeNotice } from './build-call.ts'
import { explainFailure } from './failure.ts'
import { type RpcDeps, sqlJob } from './job.ts'
import { resolveOverload, suppliedParameters } from './resolve.ts'
import { requireGeoJson } from './spatial-arguments.ts'

/**
 * An immutable function may be retried like a read, since PostgreSQL itself may call it any number of times. A stable one
 * cannot write, but may take long, and may leave settings and locks in its session; see docs/decisions/access.md.
 */
const flyOptions = ({ volatility }: Fn, signal: CancelSignal, once: FlyOptions['once']): FlyOptions & AsBytes => ({
  // What is kept is written.
  kind: volatility === 'immutable' && !once ? 'read' : 'slow',
  signal,
  as: 'bytes',
  once,
})

/** Functions that the caller may not execute are not found. */
const MAY_EXECUTE: readonly string[] = ['execute']

type Answers = readonly (Relayed | null)[]
const nothing = (_answers: Answers): Reply => noContent
const result = (answers: Answers): Reply => jsonText(200, answers.at(-1) ?? 'null')

export function createRpc({ db, schema, log, dryRuns }: RpcDeps & { dryRuns: TriesWrites }): Feature {
  const statements = new SqlCache()

  const requireUndoable = async ({ oid, name }: Fn): Promise<void> => {
    const isOutside = await db.fly(SYSTEM, sql`select true from svc.outside_functions where oid = ${oid}::oid`)
    if (isOutside !== null) throw badRequest(`a dry run cannot undo what ${name}() does`, 'invalid_arguments')
  }

  const run = async (call: Call, snapshot: Schema, candidates: readonly Fn[]): Promise<Reply> => {
    const args = argumentsOf(call)
    const supplied = Object.keys(args)
    const fn = resolveOverload(candidates, supplied)
    requireGeoJson(fn, args)
    const mayWrite = fn.volatility === 'volatile'
    const isReader = call.who.kind === 'admin' && call.who.role !== 'owner'
    if (isReader && mayWrite) throw new AppError('insufficient_role', 'functions that may write need the role owner')
    // Calls with the same argument names share a statement; arguments and caller are values.
    const slots = new Slots()
    const body = slots.put(call.bodyText)
    const notice = mayWrite
      ? noticeOf(call, snapshot, fn, log.appender(call.who, call.requestId).within(slots))
      : undefined
    const shape = `${supplied.join('\0')} ${notice?.action} ${notice?.role}`
    const statement = statements.about(fn, shape, () =>
      buildCall(snapshot, fn, body, suppliedParameters(fn, supplied), notice),
    )
    const filled = statement.fill(slots.values)
    const isLogged = mayWrite && hasWatched(snapshot)
    const reply = fn.isVoid ? nothing : result
    // What only reads is done again.
    const once = isReader ? undefined : call.once && keepReply(call.once, MAY_EXECUTE, reply)
    const dryRun = isDryRun(call) ? dryRuns.start(asReader(call.who), call.cancelSignal) : undefined
    if (dryRun) await requireUndoable(fn)
    const answers: Answers = await (dryRun?.db ?? db)
      .fly(
        asReader(call.who),
        isLogged ? [nameRequest(call.requestId), filled] : [filled],
        flyOptions(fn, call.cancelSignal, once),
      )
      .catch((error: unknown) => {
        throw explainFailure(error, fn.name)
      })
    if (mayWrite) log.wake()
    return dryRun ? dryRunReply(reply(answers), dryRun.told) : reply(answers)
  }

  const routes = [
    route('POST /api/rpc/{function}', {
      summary: 'Call a function of the database',
      auth: 'optional',
      leastRole: 'viewer',
      access: 'write',
      impersonable: true,
      readsToo: true,
      limit: 'api',
      dryRun: 'wrapped',
      once: 'caller',
      params: { function: t.string({ description: '`name` or `schema.name`' }) },
      accepts: t.record(t.any(), { description: 'arguments by name' }),
      answers: { 200: t.any({ description: 'what the function returns' }), 204: null },
      handle: async (call) => {
        const viewer = viewerOf(call.who)
        if (viewer.allowedTables.length > 0) {
          throw new AppError('insufficient_scope', 'api key does not have access to functions')
        }
        const name = call.params.function
        const reply = await findOrRefresh(schema, (snapshot) => {
          const found = executable(snapshot, name, viewer)
          return found.length > 0 ? run(call, snapshot, found) : undefined
        })
        if (!reply) {
          const near = nearFunction(schema.read(), name, viewer)
          throw notFound(`function not found: ${name}`, 'function_not_found', near)
        }
        return reply
      },
    }),
  ]
  return { routes, jobs: { sql: sqlJob({ db, schema, log }) } }
}

const known = new WeakMap<Schema, boolean>()

/** Whether there is a table whose trigger logs writes. */
function hasWatched(schema: Schema): boolean {
  const watched = known.get(schema) ?? [...schema.tables.values()].some((table) => table.watched)
  known.set(schema, watched)
  return watched
}

const executable = (schema: Schema, name: string, viewer: Viewer): Fn[] =>
  findFunctions(schema, name).filter((fn) => mayExecute(fn, viewer.role))

function argumentsOf({ body, bodyText }: Call): Readonly<Record<string, unknown>> {
  if (bodyText.trim() === '') return {}
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw badRequest('invalid JSON body', 'invalid_body')
  return body as Readonly<Record<string, unknown>>
}

const PRIVILEGE: ReadonlyMap<string, Privilege> = new Map([
  ['create', 'insert'],
  ['update', 'update'],
  ['delete', 'delete'],
])

/** The headers are a hint: invalid ones, and changes that the caller may not make, are ignored. */
function noticeOf({ headers, who }: Call, schema: Schema, fn: Fn, log: Appender): ChangeNotice | undefined {
  const action = headers['x-notify-action'] ?? ''
  const privilege = PRIVILEGE.get(action)
  const table = findTable(schema, headers['x-notify-table'] ?? '')
  const { role } = viewerOf(who)
  if (!privilege || !table || fn.rowOf !== table || !mayDo(table, role, privilege)) return undefined
  if (keyFor(table, role).length === 0) return undefined
  return { table, action: action as ChangeAction, role, log }
}
