import type pg from 'pg'
import { isUuid } from '../../../core/uuid.ts'
import type { EndedEntry } from './point.ts'

/** Sessions, grants, tokens of administrators and everything that is good once. */
const ENDED = [
  ...['refresh_tokens', 'sessions', 'pending_logins', 'oauth_states', 'mail_tokens', 'sms_codes', 'mfa_challenges'],
  ...[
    'webauthn_challenges',
    'oauth_codes',
    'oauth_access_tokens',
    'oauth_refresh_tokens',
    'oauth_grants',
    'admin_tokens',
  ],
  ...['org_invites', 'kept_answers'],
]

export type EndedCredentials = { sessions: number; keys: { id: string; name: string }[] }

/**
 * After a restore to the past, what people were given then may be in other hands now: it ends. API keys that were revoked
 * after that moment are off again.
 */
export async function endCredentials(client: pg.Client, ended: readonly EndedEntry[]): Promise<EndedCredentials> {
  const keys = ended
    .filter(({ ended: kind, subject }) => kind === 'key' && isUuid(subject))
    .map(({ subject }) => subject)
  await client.query('begin')
  const { rows } = await client.query<{ count: string }>('select count(*) as count from svc.sessions')
  for (const table of ENDED) {
    const { rows: found } = await client.query(`select from pg_tables where schemaname = 'svc' and tablename = $1`, [
      table,
    ])
    if (found.length > 0) await client.query(`delete from svc.${table}`)
  }
  const revoked = await client.query<{ id: string; name: string }>(
    `update svc.api_keys set revoked_at = now() where id = any($1::uuid[]) and revoked_at is null
     returning id::text as id, name`,
    [keys],
  )
  // Access tokens that were signed before are refused too.
  await client.query(`delete from svc.settings where key = 'auth.jwt_salt'`)
  await client.query(`select svc.revoke('all_users', '')`)
  await client.query('commit')
  return { sessions: Number(rows[0]?.count ?? 0), keys: revoked.rows }
}
