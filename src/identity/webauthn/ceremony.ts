import { reasonOf } from '../../core/errors.ts'
import { ALGORITHMS, assertSoundKey } from './public-key.ts'
import type { RelyingParty } from './relying-party.ts'
import { type Assertion, type Attestation, MAX_CREDENTIAL_ID } from './response.ts'

/** Loaded on first use, because many servers have no passkeys. */
const library = () => import('@simplewebauthn/server')
const helpers = () => import('@simplewebauthn/server/helpers')

/** Loads the library; called before a transaction, which would otherwise hold its locks while loading. */
export async function ready(): Promise<void> {
  await Promise.all([library(), helpers()])
}

export type NewCredential = { id: string; publicKey: string; signCount: number; transports: readonly string[] }

/** For the operator; answers never have it. */
export type OnRefused = (reason: string) => void

/** Registration, WebAuthn §7.1. Resolves to undefined when the response proves nothing. */
export async function verifyAttestation(
  rp: RelyingParty,
  response: Attestation,
  challenge: string,
  onRefused: OnRefused,
): Promise<NewCredential | undefined> {
  const [{ verifyRegistrationResponse }, cbor] = await Promise.all([library(), helpers()])
  try {
    refuseForeignOrigins(rp, response.response.clientDataJSON)
    refuseForeignStatements(cbor, Buffer.from(response.response.attestationObject, 'base64url'))
    const { registrationInfo } = await verifyRegistrationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: [...rp.origins],
      expectedRPID: rp.id,
      requireUserVerification: false,
      supportedAlgorithmIDs: [...ALGORITHMS],
    })
    const made = registrationInfo?.credential
    // The library does not compare the authenticator's id with the one that the client names.
    if (!made || made.id !== response.id || Buffer.from(made.id, 'base64url').length > MAX_CREDENTIAL_ID) {
      throw new Error('the authenticator names another credential than the client')
    }
    assertSoundKey(cbor.decodeCredentialPublicKey(made.publicKey) as unknown as ReadonlyMap<number, unknown>)
    return {
      id: made.id,
      publicKey: Buffer.from(made.publicKey).toString('base64url'),
      signCount: made.counter,
      transports: response.response.transports,
    }
  } catch (error) {
    onRefused(reasonOf(error))
    return undefined
  }
}

/** Authentication, WebAuthn §7.2, but for the counter. Resolves to the counter, or to undefined when nothing is proven. */
export async function verifyAssertion(
  rp: RelyingParty,
  response: Assertion,
  expected: {
    challenge: string
    /** COSE_Key, base64url. */
    publicKey: string
    userHandle: string
    /** `required` if the request named no user, so that the authenticator must. */
    userHandlePresence: 'required' | 'optional'
    userVerification: 'required' | 'preferred'
  },
  onRefused: OnRefused,
): Promise<number | undefined> {
  const { verifyAuthenticationResponse } = await library()
  const { userHandle = expected.userHandlePresence === 'required' ? '' : expected.userHandle } = response.response
  try {
    refuseForeignOrigins(rp, response.response.clientDataJSON)
    if (userHandle !== expected.userHandle) throw new Error('the passkey is of another user')
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge: expected.challenge,
      expectedOrigin: [...rp.origins],
      expectedRPID: rp.id,
      requireUserVerification: expected.userVerification === 'required',
      // The counter is compared in SQL when the challenge is spent; 0 disables the library's check.
      credential: {
        id: response.id,
        publicKey: new Uint8Array(Buffer.from(expected.publicKey, 'base64url')),
        counter: 0,
      },
    })
    if (!verified) throw new Error('the signature is wrong')
    return authenticationInfo.newCounter
  } catch (error) {
    onRefused(reasonOf(error))
    return undefined
  }
}

/** Also refuses responses from cross-origin frames, which the library accepts. */
function refuseForeignOrigins({ origins }: RelyingParty, clientDataJSON: string): void {
  const clientData = JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString('utf8')) as Record<string, unknown>
  const { origin } = clientData
  if (typeof origin !== 'string' || !origins.includes(origin)) {
    throw new Error(`origin ${String(origin).slice(0, 200)} is not among ${origins.join(', ')} (auth.webauthn_origins)`)
  }
  if (clientData['crossOrigin'] === true || clientData['topOrigin'] !== undefined) throw new Error('cross-origin')
}

/**
 * Accepts no attestation or self attestation only, since none is requested. Certificates are refused, because the
 * library may fetch URLs in them; so are bytes after the object.
 */
function refuseForeignStatements(cbor: Awaited<ReturnType<typeof helpers>>, object: Buffer): void {
  const decoded = cbor.decodeAttestationObject(new Uint8Array(object))
  const format = decoded.get('fmt')
  const isOwn = format === 'none' || (format === 'packed' && decoded.get('attStmt').get('x5c') === undefined)
  if (!isOwn) throw new Error('an attestation that was not asked for')
  if (cbor.isoCBOR.encode(decoded as unknown as Parameters<typeof cbor.isoCBOR.encode>[0]).length !== object.length) {
    throw new Error('more than one attestation object')
  }
}
