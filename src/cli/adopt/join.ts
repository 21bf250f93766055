import type pg from 'pg'
import { dropCredentials } from '../../app/identity.ts'
import { endSessionsOf } from '../../identity/users.ts'

/** An unverified account may be another person's: its credentials and sessions end before it is joined. */
export async function emptyAccount(
  client: pg.Client,
  id: string,
  hash: string | null,
  isVerified: boolean,
): Promise<void> {
  await client.query('delete from svc.identities where user_id = $1', [id])
  for (const statement of [endSessionsOf(id), ...dropCredentials(id)]) {
    const { text, values } = statement.render()
    await client.query(text, [...values])
  }
  await client.query(
    `update svc.users set password_hash = $2, email_verified_at = case when $3::boolean then now() end, updated_at = now() where id = $1`,
    [id, hash, isVerified],
  )
}
