import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { networkOf } from '../../http/wire/client-address.ts'
import type { QueueMail } from '../../identity/mail-links.ts'
import type { Device, UserJson } from '../../identity/session.ts'

type Deps = { db: Db; queueMail: QueueMail; wakeMail: () => void; appName: string; observe: Observe }

/** After a sign-in. */
export type NoticeDevice = (user: UserJson, device: Device) => void

const REMEMBERED = sql`interval '90 days'`

const PRODUCTS = /\b(Edg|OPR|SamsungBrowser|Firefox|FxiOS|CriOS|Chrome|Safari|curl|node|okhttp|Dart|CFNetwork)\b/
const SYSTEMS = /\b(Windows|iPhone|iPad|Macintosh|Android|CrOS|Linux)\b/

/** Words of a known list alone, because they stand in a mail. Versions do not count: they change with every update. */
const familyOf = (userAgent: string): string =>
  [PRODUCTS, SYSTEMS]
    .map((known) => known.exec(userAgent)?.[1] ?? '')
    .join(' ')
    .trim()

/** Whether the account is used, but not with this device in the last 90 days. It is from now on. */
const remember = (userId: string, device: string): Sql => sql`
  with known as (
    select exists (select from svc.known_devices where user_id = ${userId}::uuid) as is_used,
      exists (select from svc.known_devices
        where user_id = ${userId}::uuid and device = ${device} and seen_at > now() - ${REMEMBERED}) as is_known
  ), old as (
    delete from svc.known_devices where user_id = ${userId}::uuid and device <> ${device} and seen_at <= now() - ${REMEMBERED}
  ), kept as (
    insert into svc.known_devices (user_id, device) select id, ${device} from svc.users where id = ${userId}::uuid
    on conflict (user_id, device) do update set seen_at = now()
  )
  select (is_used and not is_known)::text from known`

/**
 * Mails the owner about a sign-in from a new device. The sign-in does not wait for it; a device of which the process died
 * before the mail was queued is not remembered either, so the next sign-in tells.
 */
export const deviceNotices =
  ({ db, queueMail, wakeMail, appName, observe }: Deps): NoticeDevice =>
  ({ id, email, is_anonymous }, { userAgent, ip }) => {
    if (email === '' || is_anonymous) return
    const family = familyOf(userAgent)
    const notice = async (): Promise<void> => {
      const isNew = await db.tx(SYSTEM, async (tx) => {
        const answer = await tx.fly(remember(id, sha256(`${family} ${networkOf(ip)}`)))
        if (answer !== 'true') return false
        const where = family === '' ? ip : `${family}, ${ip}`
        const Notice = `Your ${appName} account was signed in to from a new device (${where}).`
        await tx.run(queueMail('auth.security_notice', email, { Notice }))
        return true
      })
      if (isNew) wakeMail()
    }
    notice().catch((error: unknown) =>
      observe({ message: 'new device not noticed', attrs: { reason: reasonOf(error) } }),
    )
  }
