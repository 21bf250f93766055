import type { Tx } from '../../../db/db.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import { endAllOf } from '../sessions/sql.ts'

/** What others keep of a user's credentials, as statements that drop it. */
export type ForeignCredentials = {
  /** What the user granted to applications. */
  endGrants: (userId: string) => readonly Sql[]
  /** That, API keys, and second factors. */
  dropCredentials: (userId: string) => readonly Sql[]
}

/**
 * Somebody proved to own the address of this account, and nobody did before. Whoever made the account may be somebody
 * else who waits for the owner to come, so everything that could let them in goes first. True if that happened.
 */
export async function proveAddress(tx: Tx, userId: string, foreign: ForeignCredentials): Promise<boolean> {
  const unproven = await tx.run(sql`
    update svc.users set email_verified_at = now(), password_hash = null, updated_at = now()
    where id = ${userId}::uuid and email_verified_at is null`)
  if (unproven === 0) return false
  await tx.run(sql`delete from svc.identities where user_id = ${userId}::uuid`)
  await tx.run(endAllOf(userId))
  for (const statement of foreign.dropCredentials(userId)) await tx.run(statement)
  return true
}
