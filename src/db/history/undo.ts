import { reasonOf } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { signedActor } from '../changes/append.ts'
import { fromPg } from '../pg-errors.ts'
import type { Pool } from '../pool/pool.ts'
import { closeUndoLogin, openUndoLogin } from './undo-login.ts'

export type UndoOutcome = {
  transaction: string
  undone: { table: string; key: unknown; action: string }[]
  conflicts: { table: string | null; key: unknown; changed_at: string | null; by: unknown; message: string }[]
}

export type UndoRequest = {
  readonly who: Identity
  readonly requestId: string
  readonly ids: readonly string[]
  /** What is undone, for the log. */
  readonly undoes: unknown
  readonly force: boolean
  readonly isDry: boolean
}

type Deps = { db: Pick<Pool, 'openConnection'>; key: string; observe: Observe }

const SETTINGS = `select pg_catalog.set_config('svc.actor', $1, true), pg_catalog.set_config('svc.request_id', $2, true),
  pg_catalog.set_config('lock_timeout', '8s', true), pg_catalog.set_config('statement_timeout', '5min', true)`

const LOCK = `select pg_catalog.set_config('lock_timeout', '30s', false), pg_catalog.pg_advisory_lock(pg_catalog.hashtext('svc.undo'))`

/** Undoes changes in one transaction, or says what is in the way. */
export async function undoChanges(deps: Deps, request: UndoRequest): Promise<UndoOutcome> {
  const server = await deps.db.openConnection()
  try {
    // One at a time in a database: the login is theirs alone.
    await server.query(LOCK)
    const login = await openUndoLogin(server)
    if (!login) return await undoOn(server, deps.key, request)
    try {
      const client = await deps.db.openConnection(login)
      try {
        return await undoOn(client, deps.key, request)
      } finally {
        await client.end().catch(() => {})
      }
    } finally {
      await closeUndoLogin(server, login).catch((error: unknown) =>
        deps.observe({ message: 'the login for undo stays open', attrs: { error: reasonOf(error) } }),
      )
    }
  } catch (error) {
    throw fromPg(error)
  } finally {
    await server.end().catch(() => {})
  }
}

async function undoOn(
  client: Awaited<ReturnType<Pool['openConnection']>>,
  key: string,
  { who, requestId, ids, undoes, force, isDry }: UndoRequest,
): Promise<UndoOutcome> {
  const actor = signedActor(key, who)
  // Each statement sees what was committed while it waited for a lock.
  await client.query('begin isolation level read committed')
  await client.query(SETTINGS, [actor, requestId])
  const { rows } = await client.query<{ outcome: string }>(
    'select svc.undo_changes($1::pg_catalog.int8[], $2, $3, $4, $5, $6)::pg_catalog.text as outcome',
    [ids, force, actor.slice(65), requestId, JSON.stringify(undoes), key],
  )
  const outcome = JSON.parse(rows[0]?.outcome ?? '{}') as UndoOutcome
  await client.query(isDry || outcome.conflicts.length > 0 ? 'rollback' : 'commit')
  return outcome
}
