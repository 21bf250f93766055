import { type Sql, sql } from '../../db/sql.ts'
import type { ForeignIdentity } from './issuers.ts'

/** No row for one that is linked already. One that has ended can be linked again with its token. */
export const linkIdentity = ({ issuer, subject }: ForeignIdentity, userId: string): Sql => sql`
  insert into svc.identities as i (provider, subject, user_id, by_session)
  values (${issuer}, ${subject}, ${userId}::uuid, true)
  on conflict (provider, subject) do update
  set user_id = excluded.user_id, by_session = true, created_at = now(), ended_at = null where i.ended_at is not null`

export const isLinkedTo = ({ issuer, subject }: ForeignIdentity, userId: string): Sql => sql`
  select from svc.identities where provider = ${issuer} and subject = ${subject} and user_id = ${userId}::uuid`

/** One row for a user who can sign in: by mail, text message or passkey, or at a provider. */
export const hasWayIn = (userId: string): Sql => sql`
  select from svc.users u where u.id = ${userId}::uuid and (u.email is not null or u.phone is not null
    or exists (select from svc.webauthn_credentials c where c.user_id = u.id)
    or exists (select from svc.identities i where i.user_id = u.id and i.ended_at is null))`
