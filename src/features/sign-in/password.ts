import { type AppError, unauthorized } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { addressSubject } from '../../http/wire/client-address.ts'
import { tooManyFailures } from '../../identity/errors.ts'
import { isHashable } from '../../identity/password-rules.ts'
import type { AuthResponse, Device } from '../../identity/session.ts'
import type { SignInDeps } from './deps.ts'
import { KeyedSemaphore } from './keyed-semaphore.ts'
import * as q from './sql.ts'

/** Parallel password checks of one account from one address. */
const PARALLEL_CHECKS = 4

type AccountRow = {
  id: string | null
  password_hash: string | null
  locked_seconds: number | null
  may_try: boolean
  is_mail_due: boolean
}

/** The owner, the current hash, and the statements that record the success. */
export type VerifiedPassword = { userId: string; hash: string; record: readonly [Sql, ...Sql[]] }

/** Throws `refused` if the password is wrong, after counting the failure. */
export type CheckPassword = (
  email: string,
  password: string,
  device: Device,
  refused: () => AppError,
) => Promise<VerifiedPassword>

/** Every password check goes through here, so that every guess is counted. */
export function createPasswordCheck({ db, passwords, mailLink, wakeMail, config }: SignInDeps): CheckPassword {
  const attempts = new KeyedSemaphore(PARALLEL_CHECKS, config.hash_queue)

  async function check(email: string, password: string, stored: string | undefined): Promise<boolean> {
    try {
      return isHashable(password) ? await passwords.verify(password, stored) : await passwords.verify('', undefined)
    } catch (error) {
      await db.run(SYSTEM, q.takeBack(email))
      throw error
    }
  }

  /** The answer is that of a wrong password; the owner of the address learns what to do. */
  async function mailReset(userId: string, email: string): Promise<void> {
    await db.tx(SYSTEM, async (tx) => {
      if ((await tx.run(q.claimResetMail(userId))) > 0) await tx.run(mailLink('reset', email))
    })
    wakeMail()
  }

  async function attempt(
    email: string,
    password: string,
    ip: string,
    refused: () => AppError,
  ): Promise<VerifiedPassword> {
    const [found] = await db.rows<AccountRow>(SYSTEM, q.accountAndAttempt(email, ip))
    if (!found?.may_try) throw tooManyFailures(found?.locked_seconds ?? config.login_backoff_window)

    const stored = found.password_hash ?? undefined
    const isRight = await check(email, password, stored)
    if (!isRight || found.id === null || stored === undefined) {
      await db.run(SYSTEM, q.countFailure(email, ip, config))
      if (found.id !== null && found.is_mail_due) await mailReset(found.id, email)
      throw refused()
    }
    const renewed = passwords.isOutdated(stored) ? await passwords.hash(password) : stored
    const renewal = renewed === stored ? [] : [q.replaceHash(found.id, stored, renewed)]
    return { userId: found.id, hash: renewed, record: [q.clearFailures(email, ip), ...renewal] }
  }

  return (email, password, device, refused) => {
    const ip = addressSubject(device.ip)
    return attempts.run(`${ip} ${email}`, () => attempt(email, password, ip, refused))
  }
}

export type Login = (email: string, password: string, device: Device, captcha?: string) => Promise<AuthResponse>

export function createLogin(
  { db, startSession, requireCaptcha, config }: SignInDeps,
  checkPassword: CheckPassword,
): Login {
  const refused = () => unauthorized('invalid email or password', 'invalid_credentials')
  return async (email, password, device, captcha) => {
    if (requireCaptcha) {
      const failed = await db.fly(SYSTEM, q.hasFailed(email, addressSubject(device.ip), config))
      if (failed === 'true') await requireCaptcha(captcha, device.ip)
    }
    const { userId, hash, record } = await checkPassword(email, password, device, refused)
    // The password may have been changed during the check.
    const session = startSession(userId, ['password'], device, sql`u.password_hash = ${hash}`)
    const answers = await db.fly(SYSTEM, [session.lock, ...record, session.statement])
    return session.finish(answers.at(-1) ?? null, refused)
  }
}
