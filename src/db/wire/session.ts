import { databaseSession, type Identity } from '../../core/identity.ts'
import { signedActor } from '../changes/append.ts'
import { Ident } from '../sql.ts'
import type { Step } from './flight.ts'

export type SessionSettings = {
  /** Exposed schemas: the search path of requests, so that functions find their tables. */
  schemas: readonly string[]
  statementTimeoutMs: number
  /** Signs who writes, for the change log; see svc.current_actor(). */
  logKey?: string
}

const LOCK_TIMEOUT_MS = 8_000

/**
 * The statement that puts a caller on the connection until the end of the transaction. Everything a function could
 * have changed for the session is set again each time, so nothing leaks from one caller to the next.
 */
const TEXT = `select set_config('role',$1,true),set_config('svc.user_id',$2,true),set_config('svc.user_email',$3,true),\
set_config('svc.aal',$4,true),set_config('statement_timeout',$5,true),set_config('search_path',$6,true),\
set_config('lock_timeout','${LOCK_TIMEOUT_MS}',true),set_config('TimeZone','UTC',true),set_config('svc.actor',$7,true)`

export function createSessionStep(settings: SessionSettings) {
  const quoted = settings.schemas.map((name) => new Ident(name).quoted).join(', ')
  const actors = new WeakMap<Identity, string>()
  const actorOf = (who: Identity): string => {
    const known = actors.get(who) ?? (settings.logKey === undefined ? '' : signedActor(settings.logKey, who))
    actors.set(who, known)
    return known
  }
  return (who: Identity, timeoutMs = settings.statementTimeoutMs): { step: Step; role: string } => {
    const { role, userId, email, aal } = databaseSession(who)
    const path = who.kind === 'system' ? 'pg_catalog, pg_temp' : quoted
    return { step: { text: TEXT, values: [role, userId, email, aal, String(timeoutMs), path, actorOf(who)] }, role }
  }
}
