import { randomUUID } from 'node:crypto'
import { unauthorized } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import { hmacSha256, randomDigits } from '../../../core/secret.ts'
import type { Db } from '../../../db/db.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import type { Device } from '../sessions/device.ts'
import type { AuthResponse, Sessions } from '../sessions/sessions.ts'

export type SmsConfig = {
  sms_code_length: number
  sms_code_expiry: number
  sms_max_attempts: number
  sms_test_phone_numbers: Readonly<Record<string, string>>
}

/** What a phone shows, of a sign-in and of a second factor alike. */
export const codeMessage = (appName: string, code: string): string => `Your ${appName} code is ${code}`

export type SmsSignIn = ReturnType<typeof createSmsSignIn>

export function createSmsSignIn(deps: {
  db: Db
  sessions: Sessions
  config: SmsConfig
  appName: string
  /** A code has few digits, so a plain hash of it could be undone by trying them all. */
  codeKey: Buffer
  queueSms: (to: string, body: string) => Sql
  wakeSms: () => void
}) {
  const { db, sessions, config } = deps
  const invalid = () => unauthorized('invalid or expired SMS code')
  const hashOf = (phone: string, code: string): string => hmacSha256(deps.codeKey, `${phone} ${code}`).toString('hex')

  const store = (phone: string, code: string): Sql => sql`
    insert into svc.sms_codes (phone, code_hash, expires_at)
    values (${phone}, ${hashOf(phone, code)}, now() + make_interval(secs => ${config.sms_code_expiry}::float8))
    on conflict (phone) do update
    set code_hash = excluded.code_hash, attempts = 0, expires_at = excluded.expires_at`

  // Each try takes one attempt before it learns anything, and the right one takes them all: parallel guesses are
  // counted one by one, and a code is good once.
  const spend = (phone: string, code: string): Sql => sql`
    update svc.sms_codes
    set attempts = case when code_hash = ${hashOf(phone, code)} then ${config.sms_max_attempts}::int else attempts + 1 end
    where phone = ${phone} and attempts < ${config.sms_max_attempts}::int and expires_at > now()
    returning code_hash = ${hashOf(phone, code)} as is_right`

  return {
    async request(phone: string): Promise<void> {
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
      const [tried] = await db.rows<{ is_right: boolean }>(SYSTEM, spend(phone, code))
      if (!tried?.is_right) throw invalid()
      const [user] = await db.rows<{ id: string }>(SYSTEM, [
        sql`insert into svc.users (id, phone) values (${randomUUID()}::uuid, ${phone}) on conflict (phone) do nothing`,
        sql`select id::text from svc.users where phone = ${phone}`,
      ])
      if (!user) throw invalid()
      const signIn = sessions.signIn(user.id, ['otp'], device)
      const response = signIn.finish(await db.fly(SYSTEM, signIn.statement))
      if (!response) throw invalid()
      return response
    },
  }
}
