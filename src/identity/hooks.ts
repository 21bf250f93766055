import type { Tx } from '../db/db.ts'
import { type Sql, sql } from '../db/sql.ts'
import type { Device, UserJson } from './session.ts'

/** An account that is about to be made, or that an anonymous one is about to become. */
export type SignUp = {
  method: 'password' | 'magic_link' | 'sms' | 'oauth' | 'anonymous' | 'issuer'
  /** Of `oauth` and `issuer`, with who it is there. */
  provider?: string
  subject?: string
  email?: string | undefined
  phone?: string
  device?: Device
}

/** What a hook sets for a new account: JSON texts of objects; undefined where it sets nothing. */
export type AccountData = { metadata?: string; appMetadata?: string }

/** Throws what the caller is answered with when the account is refused. */
export type BeforeSignUp = (signUp: SignUp) => Promise<AccountData>

/** What hooks hear of a session. */
export type SessionFacts = { sessionId: string; aal: 'aal1' | 'aal2'; amr: readonly string[]; org?: string | null }

/** Further claims of an access token. */
export type ExtraClaims = Readonly<Record<string, unknown>>

export type SessionHooks = {
  beforeSignIn?: ((user: UserJson, session: SessionFacts, device: Device) => Promise<void>) | undefined
  tokenClaims?: ((user: UserJson, session: SessionFacts) => Promise<ExtraClaims>) | undefined
}

/** Claims of access tokens that are the server's, those of svc.claims(), and registered ones that say who or for what. */
export const OWN_CLAIMS: ReadonlySet<string> = new Set(
  `iss aud sub iat exp nbf jti email email_verified sid aal amr acr is_anonymous org mfa_pending metadata app_metadata claims
  auth_time nonce azp at_hash c_hash s_hash scope client_id cnf act may_act typ token_use`.split(/\s+/),
)

/**
 * Runs `work`, which finds out in its transaction whether an account is new. The hook is called outside of it, so that no lock
 * and no connection of the server waits for the operator's code: the first run is rolled back where the account is new, and
 * the second has the answer.
 */
export async function signingUp<T>(
  beforeSignUp: BeforeSignUp | undefined,
  work: (allow: (signUp: SignUp) => AccountData) => Promise<T>,
): Promise<T> {
  if (!beforeSignUp) return work(() => NOTHING)
  let signUp: SignUp | undefined
  try {
    return await work((found) => {
      signUp = found
      throw new Error('a new account waits for its hook')
    })
  } catch (error) {
    if (signUp === undefined) throw error
  }
  const data = await beforeSignUp(signUp)
  return work(() => data)
}

const NOTHING: AccountData = {}

/** Undefined where the hook set nothing. */
export function storeAccountData(userId: string, { metadata, appMetadata }: AccountData): Sql | undefined {
  if (metadata === undefined && appMetadata === undefined) return undefined
  return sql`update svc.users set metadata = coalesce(${metadata ?? null}::jsonb, metadata),
    app_metadata = coalesce(${appMetadata ?? null}::jsonb, app_metadata) where id = ${userId}::uuid`
}

export async function keepAccountData(tx: Tx, userId: string, data: AccountData): Promise<void> {
  const statement = storeAccountData(userId, data)
  if (statement) await tx.run(statement)
}
