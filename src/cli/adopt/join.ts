import type pg from 'pg'
import { dropCredentials } from '../../app/identity.ts'
import { endSessionsOf } from '../../identity/users.ts'

/**
 * An unverified account may be another person's: its credentials and sessions end before it is joined, and its phone number, which
 * signs in too. Without `joined` it loses the address and the password alone.
 */
export async function emptyAccount(
  client: pg.Client,
  id: string,
  joined: { hash: string | null; isVerified: boolean } | undefined,
): Promise<void> {
  await client.query('delete from svc.identities where user_id = $1', [id])
  for (const statement of [endSessionsOf(id), ...dropCredentials(id)]) {
    const { text, values } = statement.render()
    await client.query(text, [...values])
  }
  if (!joined)
    await client.query(
      'update svc.users set password_hash = null, email = null, email_verified_at = null, updated_at = now() where id = $1',
      [id],
    )
  else
    await client.query(
      `update svc.users set password_hash = $2, phone = null, email_verified_at = case when $3::boolean then now() end, updated_at = now() where id = $1`,
      [id, joined.hash, joined.isVerified],
    )
}
