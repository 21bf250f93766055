import { badRequest } from '../core/errors.ts'
import { randomToken, sha256 } from '../core/secret.ts'
import { type Sql, sql } from '../db/sql.ts'

export type MailPurpose = 'verify' | 'reset' | 'magic_link'

export type MailLinkConfig = {
  verify_url: string
  reset_url: string
  magic_link_url: string
  magic_link_duration: number
}

export type QueueMail = (template: string, to: string, variables: Record<string, string>) => Sql

/**
 * `store` saves the token, `mail` queues the mail; run both in one flight. `userId` is null when the address has no
 * account.
 */
export type MakeMailLink = (purpose: MailPurpose, email: string, userId: string | null) => { store: Sql; mail: Sql }

const purposes: Readonly<Record<MailPurpose, { template: string; failure: string }>> = {
  verify: { template: 'auth.email_verification', failure: 'invalid or expired verification token' },
  reset: { template: 'auth.password_reset', failure: 'invalid or expired reset token' },
  magic_link: { template: 'auth.magic_link', failure: 'invalid or expired magic link token' },
}

export function createMailLinks(deps: {
  config: MailLinkConfig
  publicBaseUrl: () => string
  queueMail: QueueMail
}): MakeMailLink {
  const { config } = deps
  const page = (name: string): string => `${deps.publicBaseUrl()}/auth/${name}`
  // URLs come from the configuration, because a client can forge the Host header.
  const pages: Readonly<Record<MailPurpose, { seconds: number; url: () => string }>> = {
    verify: { seconds: 86_400, url: () => config.verify_url || page('verify') },
    reset: { seconds: 3_600, url: () => config.reset_url || page('reset') },
    magic_link: { seconds: config.magic_link_duration, url: () => config.magic_link_url || page('magic-link') },
  }

  return (purpose, email, userId) => {
    const { seconds, url } = pages[purpose]
    const token = randomToken()
    return {
      store: sql`
        insert into svc.mail_tokens (hash, purpose, email, user_id, expires_at)
        values (${sha256(token)}, ${purpose}, ${email}, ${userId}::uuid, now() + make_interval(secs => ${seconds}::float8))
        on conflict (purpose, email) do update
        set hash = excluded.hash, user_id = excluded.user_id, expires_at = excluded.expires_at`,
      mail: deps.queueMail(purposes[purpose].template, email, { ActionURL: withToken(url(), token) }),
    }
  }
}

/** Consumes the token, so that only one caller gets its row {email, user_id}. */
export const spendMailToken = (purpose: MailPurpose, token: string): Sql => sql`
  delete from svc.mail_tokens where hash = ${sha256(token)} and purpose = ${purpose} and expires_at > now()
  returning email, user_id::text`

export const isMailTokenGood = (purpose: MailPurpose, token: string): Sql => sql`
  select 1 from svc.mail_tokens where hash = ${sha256(token)} and purpose = ${purpose} and expires_at > now()`

export const badMailToken = (purpose: MailPurpose) => badRequest(purposes[purpose].failure, 'invalid_link')

function withToken(url: string, token: string): string {
  const [page = '', fragment] = url.split('#')
  return `${page}${page.includes('?') ? '&' : '?'}token=${token}${fragment === undefined ? '' : `#${fragment}`}`
}
