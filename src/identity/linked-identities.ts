import * as t from '../core/json-type.ts'
import { type Sql, sql } from '../db/sql.ts'

/** Who somebody is at a sign-in provider or another issuer. */
export const linkedIdentity = t.object({
  id: t.uuid(),
  provider: t.string({ description: 'or the address of an issuer' }),
  subject: t.string(),
  created_at: t.time(),
  ended_at: t.optional(t.time({ description: 'by a reset: refused until a session links it again' })),
})

/** As a JSON array. */
export const linkedIdentities = (userId: Sql): Sql => sql`
  select coalesce(json_agg(json_strip_nulls(json_build_object('id', i.id, 'provider', i.provider, 'subject', i.subject,
    'created_at', svc.iso_utc(i.created_at), 'ended_at', svc.iso_utc(i.ended_at)))
    order by i.created_at, i.provider, i.subject), '[]')
  from svc.identities i where i.user_id = ${userId}`

export type RemovedIdentity = { provider: string; subject: string }

export const removeIdentity = (userId: string, id: string): Sql => sql`
  delete from svc.identities where user_id = ${userId}::uuid and id::text = ${id} returning provider, subject`

/** What a thief's session may have linked. */
export const endLinked = (userId: string): Sql => sql`
  update svc.identities set ended_at = now() where user_id = ${userId}::uuid and by_session and ended_at is null`
