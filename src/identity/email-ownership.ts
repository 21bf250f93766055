import type { Tx } from '../db/db.ts'
import { type Sql, sql } from '../db/sql.ts'
import { endLinked } from './linked-identities.ts'
import { endSessionsOf } from './users.ts'

/** Resolves to true when the address was not verified before. */
export type ProveAddress = (tx: Tx, userId: string) => Promise<boolean>

/**
 * Marks the address of an account as verified. An unverified account may have been created by another person, so all
 * credentials, the phone number and sessions from before are dropped.
 */
export const createAddressProof =
  (dropCredentials: (userId: string) => readonly Sql[]): ProveAddress =>
  async (tx, userId) => {
    const unproven = await tx.run(sql`
      update svc.users set email_verified_at = now(), password_hash = null, phone = null, updated_at = now()
      where id = ${userId}::uuid and email_verified_at is null`)
    if (unproven === 0) return false
    await tx.run(sql`delete from svc.identities where user_id = ${userId}::uuid and not by_session`)
    for (const statement of [endLinked(userId), endSessionsOf(userId), ...dropCredentials(userId)])
      await tx.run(statement)
    return true
  }
