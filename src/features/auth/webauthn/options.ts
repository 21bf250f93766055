import { ALGORITHMS } from './public-key.ts'
import type { RelyingParty } from './relying-party.ts'

/** How long a challenge can be answered. */
export const CHALLENGE_SECONDS = 300

const timeout = CHALLENGE_SECONDS * 1000

/** What an authenticator keeps of a user; it says nothing about the person (WebAuthn §14.6.1). */
export const userHandleOf = (userId: string): string =>
  Buffer.from(userId.replaceAll('-', ''), 'hex').toString('base64url')

export type Listed = { id: string; transports?: readonly string[] }

const descriptors = (credentials: readonly Listed[]) =>
  credentials.map(({ id, transports }) => ({
    id,
    type: 'public-key',
    ...(transports && transports.length > 0 && { transports }),
  }))

/** PublicKeyCredentialCreationOptions in their JSON form. */
export const creationOptions = (
  rp: RelyingParty,
  ask: { challenge: string; userId: string; userName: string; existing: readonly Listed[] },
) => ({
  rp: { id: rp.id, name: rp.name },
  user: { id: userHandleOf(ask.userId), name: ask.userName, displayName: ask.userName },
  challenge: ask.challenge,
  pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key', alg })),
  timeout,
  excludeCredentials: descriptors(ask.existing),
  // Kept on the authenticator, so that it can be used without typing who one is.
  authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'preferred' },
  attestation: 'none',
  extensions: { credProps: true },
})

/** PublicKeyCredentialRequestOptions in their JSON form; without a list any credential of this server will do. */
export const requestOptions = (
  rp: RelyingParty,
  ask: { challenge: string; userVerification: 'required' | 'preferred'; allowed?: readonly Listed[] },
) => ({
  challenge: ask.challenge,
  rpId: rp.id,
  timeout,
  userVerification: ask.userVerification,
  ...(ask.allowed && { allowCredentials: descriptors(ask.allowed) }),
})
