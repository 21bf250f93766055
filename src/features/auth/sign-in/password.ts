import { AppError, unauthorized } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import { addressSubject } from '../../../http/wire/client-address.ts'
import type { Device } from '../sessions/device.ts'
import type { AuthResponse, Sessions } from '../sessions/sessions.ts'
import { createGate } from './gate.ts'
import { isHashable, type Passwords } from './hashing.ts'

/** Parallel password checks of one account from one address. */
const PARALLEL_CHECKS = 4

type Config = { login_backoff_failures: number; login_backoff_window: number; hash_queue: number }

const accountAndLock = (email: string, ip: string): Sql => sql`
  select u.id::text, u.password_hash, ceil(extract(epoch from f.locked_until - now()))::int as locked_seconds
  from (select ${email}::text as email) asked
  left join svc.users u on u.email = asked.email
  left join svc.login_failures f on f.account = asked.email and f.ip = ${ip}`

const countFailure = (
  email: string,
  ip: string,
  { login_backoff_failures: max, login_backoff_window: window }: Config,
) => {
  const span = sql`make_interval(secs => ${window}::float8)`
  const isOver = sql`f.window_start < now() - ${span}`
  return sql`
    insert into svc.login_failures as f (account, ip, failures, locked_until)
    values (${email}, ${ip}, 1, case when ${max}::int <= 1 then now() + ${span} end)
    on conflict (account, ip) do update set
      failures = case when ${isOver} then 1 else f.failures + 1 end,
      window_start = case when ${isOver} then now() else f.window_start end,
      locked_until = case when (case when ${isOver} then 1 else f.failures + 1 end) >= ${max}::int then now() + ${span} end`
}

const clearFailures = (email: string, ip: string): Sql =>
  sql`delete from svc.login_failures where account = ${email} and ip = ${ip}`

export type Login = (email: string, password: string, device: Device) => Promise<AuthResponse>

export function createLogin(deps: { db: Db; passwords: Passwords; sessions: Sessions; config: Config }): Login {
  const { db, passwords, sessions, config } = deps
  const oneByOne = createGate(PARALLEL_CHECKS, config.hash_queue)
  const refused = () => unauthorized('invalid email or password')

  async function attempt(email: string, password: string, device: Device, ip: string): Promise<AuthResponse> {
    type Found = { id: string | null; password_hash: string | null; locked_seconds: number | null }
    const [found] = await db.rows<Found>(SYSTEM, accountAndLock(email, ip))
    if (found?.locked_seconds && found.locked_seconds > 0) throw tooManyFailures(found.locked_seconds)

    const stored = found?.password_hash ?? undefined
    const isRight = isHashable(password)
      ? await passwords.verify(password, stored)
      : await passwords.verify('', undefined)
    if (!isRight || found?.id == null || stored === undefined) {
      await db.run(SYSTEM, countFailure(email, ip, config))
      throw refused()
    }
    // The password may have been changed while it was being checked.
    const signIn = sessions.signIn(found.id, ['password'], device, sql`u.password_hash = ${stored}`)
    const response = signIn.finish(await db.fly(SYSTEM, [clearFailures(email, ip), signIn.statement]))
    if (!response) throw refused()
    return response
  }

  return (email, password, device) => {
    const ip = addressSubject(device.ip)
    return oneByOne(`${ip} ${email}`, () => attempt(email, password, device, ip))
  }
}

export const tooManyFailures = (seconds: number): AppError =>
  new AppError('rate_limited', 'too many failed attempts, try again later', {
    headers: { 'Retry-After': String(Math.max(1, seconds)) },
  })
