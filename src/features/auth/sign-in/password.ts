import { type AppError, unauthorized } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import { addressSubject } from '../../../http/wire/client-address.ts'
import { tooManyFailures } from '../failures.ts'
import type { Device } from '../sessions/device.ts'
import type { AuthResponse, Sessions } from '../sessions/sessions.ts'
import { createGate } from './gate.ts'
import { isForeign, isHashable, type Passwords } from './hashing.ts'

/** Parallel password checks of one account from one address. */
const PARALLEL_CHECKS = 4

type Config = { login_backoff_failures: number; login_backoff_window: number; hash_queue: number }

/** Stands for all addresses together in the column of addresses. */
const EVERYWHERE = '*'
/** NIST SP 800-63B, 3.2.2: consecutive failures of one account, wherever they come from. */
const MAX_CONSECUTIVE = 100

/** An attempt counts as failed before it learns anything: any number of addresses guessing at once gets no more tries. */
const accountAndAttempt = (email: string, ip: string): Sql => sql`
  with here as (
    select ceil(extract(epoch from locked_until - now()))::int as seconds from svc.login_failures
    where account = ${email} and ip = ${ip} and locked_until > now()
  ), counted as (
    insert into svc.login_failures as f (account, ip, failures)
    select ${email}, ${EVERYWHERE}, 1 where not exists (select from here)
    on conflict (account, ip) do update set failures = f.failures + 1, window_start = now()
    where f.failures < ${MAX_CONSECUTIVE}::int
    returning failures
  )
  select u.id::text, u.password_hash, (select seconds from here) as locked_seconds,
    exists (select from counted) as may_try
  from (select ${email}::text as email) asked left join svc.users u on u.email = asked.email`

/** Nothing was learnt: the server was too busy to look. */
const takeBack = (email: string): Sql => sql`
  update svc.login_failures set failures = failures - 1 where account = ${email} and ip = ${EVERYWHERE} and failures > 0`

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

const replaceHash = (userId: string, from: string, to: string): Sql =>
  sql`update svc.users set password_hash = ${to} where id = ${userId}::uuid and password_hash = ${from}`

/** For an owner who proved the account by other means. */
export const forgiveFailures = (userId: string): Sql => sql`
  delete from svc.login_failures where account = (select email from svc.users where id = ${userId}::uuid)`

type Found = {
  id: string | null
  password_hash: string | null
  locked_seconds: number | null
  may_try: boolean
}

/** Whose password it is, the hash it has now, and the statements that take note of it. */
export type Proven = { userId: string; hash: string; record: readonly [Sql, ...Sql[]] }

/** Throws `refused` when it is wrong, after counting it. */
export type CheckPassword = (
  email: string,
  password: string,
  device: Device,
  refused: () => AppError,
) => Promise<Proven>

/** The one way to find out whether a password is right: every guess is counted, wherever it is made. */
export function createPasswordCheck(deps: { db: Db; passwords: Passwords; config: Config }): CheckPassword {
  const { db, passwords, config } = deps
  const oneByOne = createGate(PARALLEL_CHECKS, config.hash_queue)

  async function check(email: string, password: string, stored: string | undefined): Promise<boolean> {
    try {
      return isHashable(password) ? await passwords.verify(password, stored) : await passwords.verify('', undefined)
    } catch (error) {
      await db.run(SYSTEM, takeBack(email))
      throw error
    }
  }

  async function attempt(email: string, password: string, ip: string, refused: () => AppError): Promise<Proven> {
    const [found] = await db.rows<Found>(SYSTEM, accountAndAttempt(email, ip))
    if (!found?.may_try) throw tooManyFailures(found?.locked_seconds ?? config.login_backoff_window)

    const stored = found.password_hash ?? undefined
    const isRight = await check(email, password, stored)
    if (!isRight || found.id === null || stored === undefined) {
      await db.run(SYSTEM, countFailure(email, ip, config))
      throw refused()
    }
    const renewed = isForeign(stored) ? await passwords.hash(password) : stored
    const renewal = renewed === stored ? [] : [replaceHash(found.id, stored, renewed)]
    return { userId: found.id, hash: renewed, record: [clearFailures(email, ip), ...renewal] }
  }

  return (email, password, device, refused) => {
    const ip = addressSubject(device.ip)
    return oneByOne(`${ip} ${email}`, () => attempt(email, password, ip, refused))
  }
}

export type Login = (email: string, password: string, device: Device) => Promise<AuthResponse>

export function createLogin(deps: { db: Db; checkPassword: CheckPassword; sessions: Sessions }): Login {
  const refused = () => unauthorized('invalid email or password', 'invalid_credentials')
  return async (email, password, device) => {
    const { userId, hash, record } = await deps.checkPassword(email, password, device, refused)
    // The password may have been changed while it was being checked.
    const signIn = deps.sessions.signIn(userId, ['password'], device, sql`u.password_hash = ${hash}`)
    const answers = await deps.db.fly(SYSTEM, [...record, signIn.statement])
    const response = signIn.finish(answers.at(-1) ?? null)
    if (!response) throw refused()
    return response
  }
}
