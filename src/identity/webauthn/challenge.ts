import { randomUUID } from 'node:crypto'
import { randomToken } from '../../core/secret.ts'
import { ready } from './ceremony.ts'
import { ALGORITHMS } from './public-key.ts'
import type { RelyingParty } from './relying-party.ts'

export type ChallengeKind = 'enroll' | 'mfa' | 'login' | 'discover'
export type NewChallenge = { id: string; kind: ChallengeKind; challenge: string; seconds: number }

/** Lifetime of a challenge. */
const SECONDS = 300

export function newChallenge(kind: NewChallenge['kind']): NewChallenge {
  // Preloads the library; a failure is reported by the call that needs it.
  ready().catch(() => {})
  return { id: randomUUID(), kind, challenge: randomToken(), seconds: SECONDS }
}

/** The user id that an authenticator stores; it reveals nothing about the person (WebAuthn §14.6.1). */
export const userHandleOf = (userId: string): string =>
  Buffer.from(userId.replaceAll('-', ''), 'hex').toString('base64url')

type Listed = { id: string; transports?: readonly string[] }

const descriptors = (credentials: readonly Listed[]) =>
  credentials.map(({ id, transports }) => ({
    id,
    type: 'public-key',
    ...(transports && transports.length > 0 && { transports }),
  }))

/** PublicKeyCredentialCreationOptions in their JSON form. */
export const creationOptions = (
  rp: RelyingParty,
  { challenge, seconds }: NewChallenge,
  user: { userId: string; userName: string; existing: readonly Listed[] },
) => ({
  rp: { id: rp.id, name: rp.name },
  user: { id: userHandleOf(user.userId), name: user.userName, displayName: user.userName },
  challenge,
  pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key', alg })),
  timeout: seconds * 1000,
  excludeCredentials: descriptors(user.existing),
  // Discoverable, so that the user can sign in without typing an address.
  authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'preferred' },
  attestation: 'none',
  extensions: { credProps: true },
})

/** A challenge as the API shows it; without a list any credential of this server is accepted. */
export const requestOptions = (
  rp: RelyingParty,
  { id, challenge, seconds }: NewChallenge,
  { userVerification, allowed }: { userVerification: 'required' | 'preferred'; allowed?: readonly Listed[] },
) => ({
  challenge_id: id,
  options: {
    challenge,
    rpId: rp.id,
    timeout: seconds * 1000,
    userVerification,
    ...(allowed && { allowCredentials: descriptors(allowed) }),
  },
})
