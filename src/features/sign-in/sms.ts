import { randomUUID } from 'node:crypto'
import { unauthorized } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { hmacSha256, randomDigits } from '../../core/secret.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { tooManyFailures } from '../../identity/errors.ts'
import type { AuthResponse, Device } from '../../identity/session.ts'
import { codeMessage } from '../../identity/sms-code.ts'
import type { SignInDeps } from './deps.ts'

/** Counted over all codes of a number; otherwise new codes would allow all four-digit guesses within hours. */
const MAX_FAILURES = 30
const LOCK_SECONDS = 86_400

export function createSmsSignIn(deps: SignInDeps) {
  const { db, config } = deps
  const invalid = () => unauthorized('invalid or expired SMS code', 'invalid_code')
  const hashOf = (phone: string, code: string): string =>
    hmacSha256(deps.smsCodeKey, `${phone} ${code}`).toString('hex')

  const store = (phone: string, code: string): Sql => sql`
    insert into svc.sms_codes (phone, code_hash, expires_at)
    values (${phone}, ${hashOf(phone, code)}, now() + make_interval(secs => ${config.sms_code_expiry}::float8))
    on conflict (phone) do update
    set code_hash = excluded.code_hash, attempts = 0, expires_at = excluded.expires_at`

  // Each try spends an attempt before the comparison, and the right code spends all: parallel guesses are counted, and
  // a code works once.
  const spend = (phone: string, code: string): Sql => {
    const isRight = sql`code_hash = ${hashOf(phone, code)}`
    const isLocked = sql`coalesce(locked_until > now(), false)`
    return sql`
    with tried as (
      update svc.sms_codes
      set attempts = case when ${isRight} then ${config.sms_max_attempts}::int else attempts + 1 end,
        failures = case when ${isRight} or failures >= ${MAX_FAILURES}::int - 1 then 0 else failures + 1 end,
        locked_until = case when not (${isRight}) and failures >= ${MAX_FAILURES}::int - 1
          then now() + make_interval(secs => ${LOCK_SECONDS}::float8) end
      where phone = ${phone} and attempts < ${config.sms_max_attempts}::int and expires_at > now() and not ${isLocked}
      returning ${isRight} as is_right
    )
    select coalesce((select is_right from tried), false) as is_right,
      (select ceil(extract(epoch from locked_until - now()))::int from svc.sms_codes
       where phone = ${phone} and ${isLocked}) as locked_seconds`
  }

  const isLocked = async (phone: string): Promise<boolean> =>
    (await db.run(SYSTEM, sql`select from svc.sms_codes where phone = ${phone} and locked_until > now()`)) > 0

  const idByPhone = (phone: string): Sql => sql`select id::text from svc.users where phone = ${phone}`

  async function make(phone: string, device: Device): Promise<string | null> {
    const { metadata = '{}', appMetadata = '{}' } = (await deps.beforeSignUp?.({ method: 'sms', phone, device })) ?? {}
    const [, id] = await db.fly(SYSTEM, [
      sql`insert into svc.users (id, phone, metadata, app_metadata)
        values (${randomUUID()}::uuid, ${phone}, ${metadata}::jsonb, ${appMetadata}::jsonb) on conflict (phone) do nothing`,
      idByPhone(phone),
    ])
    return id
  }

  return {
    async request(phone: string): Promise<void> {
      if (await isLocked(phone)) return
      const fixed = config.sms_test_phone_numbers[phone]
      if (fixed !== undefined) {
        await db.run(SYSTEM, store(phone, fixed))
        return
      }
      const code = randomDigits(config.sms_code_length)
      await db.run(SYSTEM, [store(phone, code), deps.queueSms(phone, codeMessage(deps.appName, code))])
      deps.wakeSms()
    },

    async confirm(phone: string, code: string, device: Device): Promise<AuthResponse> {
      type Tried = { is_right: boolean; locked_seconds: number | null }
      const [tried] = await db.rows<Tried>(SYSTEM, spend(phone, code))
      if (tried?.locked_seconds) throw tooManyFailures(tried.locked_seconds)
      if (!tried?.is_right) throw invalid()
      const id = (await db.fly(SYSTEM, idByPhone(phone))) ?? (await make(phone, device))
      if (id === null) throw invalid()
      const session = deps.startSession(id, ['otp'], device)
      const [, answer] = await db.fly(SYSTEM, [session.lock, session.statement])
      return session.finish(answer, invalid)
    },
  }
}
