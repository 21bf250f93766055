import { badRequest } from '../core/errors.ts'
import { randomToken, sha256 } from '../core/secret.ts'
import { type Sql, sql } from '../db/sql.ts'

export type MailPurpose = 'verify' | 'reset' | 'magic_link' | 'email_change' | 'email_revert' | 'invite'

export type MailLinkConfig = {
  verify_url: string
  reset_url: string
  magic_link_url: string
  magic_link_duration: number
}

/**
 * A statement that queues a mail, or changes nothing when its recipient has had too many. `beside`: what is stored with
 * the mail. `onlyToAccounts`: not sent unless the address has an account when it is its turn.
 */
export type QueueMail = (
  template: string,
  to: string,
  variables: Record<string, string>,
  options?: { beside?: Sql; onlyToAccounts?: boolean },
) => Sql

/** A statement that stores a token and queues its mail. A reset belongs to the account of the address, if it has one. */
export type MakeMailLink = (purpose: MailPurpose, email: string, userId?: string) => Sql

const purposes: Readonly<Record<MailPurpose, { template: string; failure: string }>> = {
  verify: { template: 'auth.email_verification', failure: 'invalid or expired verification token' },
  reset: { template: 'auth.password_reset', failure: 'invalid or expired reset token' },
  magic_link: { template: 'auth.magic_link', failure: 'invalid or expired magic link token' },
  email_change: { template: 'auth.email_change', failure: 'invalid or expired email change token' },
  email_revert: { template: 'auth.email_changed', failure: 'invalid or expired email change token' },
  invite: { template: 'auth.invitation', failure: 'invalid or expired invitation token' },
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
    email_change: { seconds: 86_400, url: () => page('email-change') },
    email_revert: { seconds: 86_400, url: () => page('email-revert') },
    // The page that sets a password; confirming a reset takes both tokens.
    invite: { seconds: 7 * 86_400, url: () => config.reset_url || page('reset') },
  }

  return (purpose, email, userId) => {
    const { seconds, url } = pages[purpose]
    const token = randomToken()
    // One statement, which does the same work whether the address has an account or not.
    const isReset = purpose === 'reset'
    const owner = isReset ? sql`(select id from svc.users where email = ${email})` : sql`${userId ?? null}::uuid`
    const beside = sql`
      insert into svc.mail_tokens (hash, purpose, email, user_id, expires_at, is_first_proof)
      select ${sha256(token)}, ${purpose}, ${email}, ${owner}, now() + make_interval(secs => ${seconds}::float8),
        ${purpose === 'email_revert'}::boolean
          and exists (select from svc.users where id = ${userId ?? null}::uuid and email_verified_at is null)
      from cause`
    const variables = { ActionURL: withToken(url(), token) }
    return deps.queueMail(purposes[purpose].template, email, variables, { beside, onlyToAccounts: isReset })
  }
}

const isGood = (purpose: MailPurpose, token: string): Sql =>
  sql`hash = ${sha256(token)} and purpose = ${purpose} and expires_at > now()`

export type SpentMailToken = {
  email: string
  /** Of a link back to an address that was not verified when the account left it. */
  isFirstProof: boolean
}

/**
 * Consumes the token and all others of its purpose and address, so that only one caller gets its row.
 * Locked in one order, so that two callers with two tokens do not wait for each other.
 */
export const spendMailToken = (purpose: MailPurpose, token: string): Sql => sql`
  with held as (
    select hash from svc.mail_tokens
    where purpose = ${purpose} and email = (select email from svc.mail_tokens where ${isGood(purpose, token)})
    order by hash for update
  ), gone as (
    delete from svc.mail_tokens t using held where t.hash = held.hash returning t.hash, t.email, t.user_id, t.is_first_proof
  )
  select email, user_id::text, is_first_proof as "isFirstProof" from gone where hash = ${sha256(token)}`

/** No row unless the token is good and its address had an account when it was mailed. */
export const ownerOfMailToken = (purpose: MailPurpose, token: string): Sql =>
  sql`select user_id::text from svc.mail_tokens where ${isGood(purpose, token)} and user_id is not null`

/** When the mail of a good link of one day was queued. */
export const mailedAt = (purpose: 'email_revert', token: string): Sql =>
  sql`select (expires_at - interval '1 day')::text from svc.mail_tokens where ${isGood(purpose, token)}`

export const badMailToken = (purpose: MailPurpose) => badRequest(purposes[purpose].failure, 'invalid_link')

function withToken(url: string, token: string): string {
  const [page = '', fragment] = url.split('#')
  return `${page}${page.includes('?') ? '&' : '?'}token=${token}${fragment === undefined ? '' : `#${fragment}`}`
}
