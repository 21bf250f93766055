/** ID tokens (OpenID Connect Core, section 2), and those that tell a client of a logout (Back-Channel Logout, section 2.4). */
export type ClientTokenType = 'JWT' | 'logout+jwt'

/** Tokens that clients of the OAuth server verify with the published keys. */
export type ClientTokens = {
  /** Empty where no key is published: clients cannot verify HS256. */
  algorithms(): readonly string[]
  /** Adds `iat` and `exp`: by default, the key is published until the token is over. */
  sign(type: ClientTokenType, claims: object, seconds?: number): string
  /** The claims of an ID token that this server signed, however old; undefined for any other text. */
  readIdToken(token: string): IdTokenClaims | undefined
}

export type IdTokenClaims = { readonly sub: string; readonly aud: string; readonly sid?: string }
