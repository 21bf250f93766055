import { randomUUID } from 'node:crypto'
import { AppError, badRequest, hasStatus } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import { randomToken, sha256 } from '../../../core/secret.ts'
import type { Tx } from '../../../db/db.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import type { IdentityDeps } from '../../../identity/deps.ts'
import { EMAIL_TAKEN, orEmailTaken } from '../../../identity/errors.ts'
import { type AccountData, signingUp } from '../../../identity/hooks.ts'
import type { AuthResponse, Device } from '../../../identity/session.ts'
import { idByEmail, insertUser, lockAccount } from '../../../identity/users.ts'
import { browserCookie, browserOf } from './browser-cookie.ts'
import type { Profile } from './profile.ts'
import { type AuthorizeParams, providerFailed, signInRefused } from './provider.ts'
import type { Providers } from './registry.ts'
import { type ReturnConfig, returnTo } from './return-to.ts'

const STATE_SECONDS = 600

export type ExternalSignIn = ReturnType<typeof createExternalSignIn>

type Deps = Pick<
  IdentityDeps,
  'db' | 'startSession' | 'proveAddress' | 'onRevoked' | 'publicBaseUrl' | 'beforeSignUp'
> & {
  providers: Providers
  config: ReturnConfig
}

type SignInState = Omit<AuthorizeParams, 'callbackUrl'> & { provider: string; returnTo: string; browser: string }

const storeState = (s: SignInState): Sql => sql`
  insert into svc.oauth_states (state_hash, provider, code_verifier, nonce, return_to, browser_hash, expires_at)
  values (${sha256(s.state)}, ${s.provider}, ${s.codeVerifier}, ${s.nonce}, ${s.returnTo}, ${sha256(s.browser)},
    now() + make_interval(secs => ${STATE_SECONDS}))`

const spendState = (state: string, provider: string, browser: string): Sql => sql`
  delete from svc.oauth_states
  where state_hash = ${sha256(state)} and provider = ${provider} and browser_hash = ${sha256(browser)}
    and expires_at > now()
  returning code_verifier, nonce, return_to`

const linkIdentity = (profile: Profile, userId: string): Sql => sql`
  insert into svc.identities (provider, subject, user_id)
  values (${profile.provider}, ${profile.subject}, ${userId}::uuid) on conflict do nothing`

/** Sign-in with an account at an external provider. */
export function createExternalSignIn(deps: Deps) {
  const { db, providers } = deps
  const callbackUrl = (provider: string): string => `${deps.publicBaseUrl()}/api/auth/oauth/${provider}/callback`

  async function byIdentity(tx: Tx, profile: Profile) {
    const [user] = await tx.rows<{ id: string; email: string | null }>(sql`
      select u.id::text, u.email from svc.identities i join svc.users u on u.id = i.user_id
      where i.provider = ${profile.provider} and i.subject = ${profile.subject}`)
    return user
  }

  /** The account this profile signs in to: found by provider and subject, else by a verified address, else new. */
  async function accountOf(
    tx: Tx,
    profile: Profile,
    allow: () => AccountData,
  ): Promise<{ id: string; changed: boolean }> {
    const { email, emailVerified } = profile
    const known = await byIdentity(tx, profile)
    if (known && !(emailVerified && known.email === email)) return { id: known.id, changed: false }
    const byEmail = email === undefined ? undefined : (await tx.rows<{ id: string }>(idByEmail(email)))[0]
    if (byEmail && !emailVerified) throw new AppError('account_taken', EMAIL_TAKEN)
    const id = known?.id ?? byEmail?.id ?? randomUUID()
    const isNew = !known && !byEmail
    if (isNew) await tx.run(insertUser({ id, ...(email !== undefined && { email }), emailVerified, ...allow() }))
    else await lockAccount(tx, id, providerFailed)
    const changed = !isNew && (await deps.proveAddress(tx, id))
    await tx.run(linkIdentity(profile, id))
    return { id, changed }
  }

  async function enter(profile: Profile, device: Device): Promise<AuthResponse> {
    const { provider, subject, email } = profile
    const attempt = () =>
      signingUp(deps.beforeSignUp, (allow) =>
        db.tx(SYSTEM, async (tx) => {
          const account = await accountOf(tx, profile, () =>
            allow({ method: 'oauth', provider, subject, email, device }),
          )
          return { account, answer: await deps.startSession(account.id, ['oauth'], device).open(tx, signInRefused) }
        }),
      )
    // Of two concurrent first sign-ins one fails, and finds the other's account on its second attempt.
    const first = await attempt().catch((error) => {
      if (hasStatus(error, 409) && error.message !== EMAIL_TAKEN) return undefined
      throw error
    })
    const { account, answer } = first ?? (await orEmailTaken(attempt(), EMAIL_TAKEN))
    if (account.changed) deps.onRevoked(account.id)
    return answer()
  }

  return {
    /** The URL of the provider's sign-in page, and the cookie that the callback must present. */
    async start(
      name: string,
      redirectTo: string | undefined,
      cookies: string | undefined,
    ): Promise<{ url: string; cookie: string }> {
      const provider = providers(name)
      const target = returnTo(redirectTo, deps.config)
      const [state, nonce, codeVerifier] = [randomToken(), randomToken(), randomToken()]
      const url = await provider.authorizeUrl({ state, nonce, codeVerifier, callbackUrl: callbackUrl(name) })
      const base = deps.publicBaseUrl()
      const browser = browserOf(cookies, base) ?? randomToken()
      await db.run(SYSTEM, storeState({ state, provider: name, codeVerifier, nonce, returnTo: target, browser }))
      return { url, cookie: browserCookie(browser, base, STATE_SECONDS) }
    },

    /** `returnTo` is empty if there is no URL to return to. */
    async finish(
      name: string,
      query: Readonly<Record<string, string>>,
      cookies: string | undefined,
      device: Device,
    ): Promise<{ returnTo: string; response: AuthResponse }> {
      const provider = providers(name)
      type Stored = { code_verifier: string; nonce: string; return_to: string }
      const state = query['state'] ?? ''
      const browser = browserOf(cookies, deps.publicBaseUrl())
      const isOurs = state !== '' && browser !== undefined
      const [stored] = isOurs ? await db.rows<Stored>(SYSTEM, spendState(state, name, browser)) : []
      if (query['error'] !== undefined) throw signInRefused()
      if (!stored) throw badRequest('invalid or expired OAuth state', 'invalid_link')
      if (!query['code']) throw badRequest('missing authorization code', 'invalid_link')
      const params = { state, nonce: stored.nonce, codeVerifier: stored.code_verifier, callbackUrl: callbackUrl(name) }
      const profile = await provider.exchange(params, new URLSearchParams(query))
      return { returnTo: stored.return_to, response: await enter(profile, device) }
    },
  }
}
