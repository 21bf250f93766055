import { databaseSession, type Identity, mayOnlyRead } from '../../core/identity.ts'
import { currentTraceparent } from '../../core/trace.ts'
import { signedActor } from '../changes/append.ts'
import { Flight, type Step } from '../protocol/flight.ts'
import { EACH_SETTING } from '../protocol/settings.ts'
import { Ident } from '../sql.ts'
import type { Dialects } from './dialect.ts'
import { LOCK_TIMEOUT_MS } from './tuning.ts'

export type SessionSettings = {
  /** Exposed schemas: the search path of requests, so that functions find their tables. */
  schemas: readonly string[]
  statementTimeoutMs: number
  /** Signs who writes, for the change log; see svc.current_actor(). */
  logKey?: string
  /** What code of an adopted database reads instead. */
  dialects?: Dialects | undefined
  /** Connections may come without the settings of protocol/settings.ts, as behind a pooler. */
  lacksSettings?: () => boolean
}

/**
 * The statement that puts a caller on the connection until the end of the transaction. Everything a function could
 * have changed for the session is set again each time, so nothing leaks from one caller to the next. None of the values
 * is null, so no row comes back, which neither side then has to make or read.
 */
const SETTINGS = [
  `'role',$1`,
  `'svc.user_id',$2`,
  `'svc.user_email',$3`,
  `'svc.aal',$4`,
  `'statement_timeout',$5`,
  `'search_path',$6`,
  `'lock_timeout',$7`,
  `'TimeZone','UTC'`,
  `'svc.actor',$8`,
  `'svc.claims',$9`,
]
const textOf = (settings: readonly string[], isLocal = true): string =>
  `select where pg_catalog.num_nulls(${settings.map((setting) => `pg_catalog.set_config(${setting},${isLocal})`).join(',')})\
 operator(pg_catalog.>) 0`
const SETTING_VALUES = 9
/** For a connection that is not used again. */
export const lastingSession = (dialects: Dialects | undefined, { values }: Step) => ({
  text: textOf([...SETTINGS, ...(dialects?.settings ?? [])], false),
  values: values.slice(0, SETTING_VALUES),
})
/** For callers who only read. No statement behind it can undo this before the transaction ends. */
const READ_ONLY = `'transaction_read_only','on'`
/** With telemetry: changes name the span that made them (migrations/0190_change_trace.sql). */
const TRACE = `'svc.trace',$10`
const textsOf = (more: readonly string[]) => ({
  text: textOf([...SETTINGS, ...more]),
  reading: textOf([...SETTINGS, ...more, READ_ONLY]),
  traced: textOf([...SETTINGS, ...more, TRACE]),
})

/** What hook functions run as, on the login of callers. */
const HOOKS_ROLE = 'svc_hooks'

/** The index in a flight of the step that sets the identity. */
export const SESSION_STEP = 0

/** Sent after a flight that ran user code, in the same write, so that it costs no round trip. */
export const tidying = (onDone: (error: Error | null) => void): Flight =>
  new Flight({ steps: [{ text: 'select svc.tidy_session()', values: [] }], role: '' }, onDone)

export type CreateSession = (who: Identity, timeoutMs?: number, lockTimeoutMs?: number) => { step: Step; role: string }

const isReading = (who: Identity): boolean => mayOnlyRead(who) || (who.kind === 'admin' && who.role === 'viewer')

export function createSessionStep(settings: SessionSettings): CreateSession {
  const { dialects, lacksSettings = () => false } = settings
  const exposed = settings.schemas.map((name) => new Ident(name).quoted).join(', ')
  let [quoted, texts, version, isLacking] = [exposed, textsOf([]), 0, false]
  const learn = (): void => {
    const { settings: more = [], path = '' } = dialects ?? {}
    version = dialects?.version ?? 0
    isLacking = lacksSettings()
    quoted = exposed + path
    texts = textsOf(isLacking ? [...EACH_SETTING, ...more] : more)
  }
  const actors = new WeakMap<Identity, string>()
  const actorOf = (who: Identity): string => {
    const known = actors.get(who) ?? (settings.logKey === undefined ? '' : signedActor(settings.logKey, who))
    actors.set(who, known)
    return known
  }
  return (who, timeoutMs = settings.statementTimeoutMs, lockTimeoutMs = LOCK_TIMEOUT_MS) => {
    if ((dialects?.version ?? 0) !== version || lacksSettings() !== isLacking) learn()
    const { role, userId, email, aal, claims } = databaseSession(who)
    const isOwn = who.kind === 'system' && (who.for === undefined || who.for === 'callers')
    const path = isOwn ? 'pg_catalog, pg_temp' : quoted
    const values = [
      who.kind === 'system' && who.for === 'hooks' ? HOOKS_ROLE : role,
      userId,
      email,
      aal,
      String(timeoutMs),
      path,
      String(lockTimeoutMs),
      actorOf(who),
      claims,
    ]
    if (isReading(who)) return { step: { text: texts.reading, values }, role }
    const traceparent = currentTraceparent()
    if (traceparent === undefined) return { step: { text: texts.text, values }, role }
    return { step: { text: texts.traced, values: [...values, traceparent] }, role }
  }
}
