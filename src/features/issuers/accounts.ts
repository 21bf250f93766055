import { randomUUID } from 'node:crypto'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { AccountData, BeforeSignUp } from '../../identity/hooks.ts'
import { type ForeignIdentity, idOfForeigner, keyIdOf, type ReadForeignToken } from './issuers.ts'

export type Foreigner = Extract<Identity, { kind: 'key' }>

/** `is_closed`: the account is disabled, or the identity has ended. */
type Account = { id: string; email: string; is_closed: boolean }

const accountOf = ({ issuer, subject }: ForeignIdentity): Sql => sql`
  select u.id::text, coalesce(u.email, '') as email, u.disabled_at is not null or i.ended_at is not null as is_closed
  from svc.identities i join svc.users u on u.id = i.user_id where i.provider = ${issuer} and i.subject = ${subject}`

/** Of two first requests at once, one makes the account. */
const oneAtATime = (foreign: ForeignIdentity): Sql =>
  sql`select pg_advisory_xact_lock(hashtextextended(${keyIdOf(foreign)}, 0))`

/** A new account never joins another one by its address: one that is taken is left out. */
const provision = ({ issuer, subject, email }: ForeignIdentity, data: AccountData): Sql => sql`
  with made as (
    insert into svc.users (id, email, email_verified_at, metadata, app_metadata)
    select ${randomUUID()}::uuid, case when a.free then ${email} end, case when a.free then now() end,
      ${data.metadata ?? '{}'}::jsonb, ${data.appMetadata ?? '{}'}::jsonb
    from (select ${email} <> '' and not exists (select from svc.users where email = ${email}) as free) a
    where not exists (select from svc.identities where provider = ${issuer} and subject = ${subject})
    on conflict do nothing returning id
  )
  insert into svc.identities (provider, subject, user_id) select ${issuer}, ${subject}, id from made
  on conflict do nothing`

/** Callers with tokens of other issuers: an identity is issuer and subject, and has an account or a UUID of its own. */
export function createForeigners(deps: { db: Db; read: ReadForeignToken; beforeSignUp: BeforeSignUp | undefined }) {
  const { db, read, beforeSignUp } = deps

  async function accountFor(foreign: ForeignIdentity): Promise<Account | undefined> {
    const [known] = await db.rows<Account>(SYSTEM, accountOf(foreign), { kind: 'read' })
    if (known || !foreign.provision) return known
    const { issuer: provider, subject, email } = foreign
    const data = (await beforeSignUp?.({ method: 'issuer', provider, subject, email })) ?? {}
    await db.run(SYSTEM, [oneAtATime(foreign), provision(foreign, data)])
    const [made] = await db.rows<Account>(SYSTEM, accountOf(foreign))
    // Its address was taken at the same moment; the next request comes without it.
    return made
  }

  return {
    async resolve(token: string, nowMs: number): Promise<Foreigner | undefined> {
      const foreign = await read(token, nowMs)
      if (!foreign) return undefined
      const account = await accountFor(foreign)
      if (account?.is_closed || (!account && foreign.provision)) return undefined
      const { aal, claims, expiresAt } = foreign
      return {
        kind: 'key',
        via: 'issuer',
        keyId: keyIdOf(foreign),
        userId: account?.id ?? idOfForeigner(foreign),
        email: account ? account.email : foreign.email,
        grant: { scope: '*', tables: [], files: { read: true, write: true }, appId: null },
        aal,
        claims,
        expiresAt,
      }
    },
  }
}
