import { ALGORITHMS, assertSoundKey } from './public-key.ts'
import type { RelyingParty } from './relying-party.ts'
import { type Assertion, type Attestation, MAX_CREDENTIAL_ID } from './response.ts'

/** Loaded by the first ceremony: most servers start without one. */
const library = () => import('@simplewebauthn/server')
const helpers = () => import('@simplewebauthn/server/helpers')

/** Before a transaction that verifies, which would hold its locks for the second that loading may take. */
export async function ready(): Promise<void> {
  await Promise.all([library(), helpers()])
}

export type NewCredential = { id: string; publicKey: string; signCount: number; transports: readonly string[] }

/** Registration, WebAuthn §7.1. Resolves to undefined when the response proves nothing. */
export async function verifyAttestation(
  rp: RelyingParty,
  response: Attestation,
  challenge: string,
): Promise<NewCredential | undefined> {
  const [{ verifyRegistrationResponse }, cbor] = await Promise.all([library(), helpers()])
  try {
    refuseForeignFrames(response.response.clientDataJSON)
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
    // The library takes the id from the authenticator and never compares it with the one the client names.
    if (!made || made.id !== response.id || Buffer.from(made.id, 'base64url').length > MAX_CREDENTIAL_ID)
      return undefined
    assertSoundKey(cbor.decodeCredentialPublicKey(made.publicKey) as unknown as ReadonlyMap<number, unknown>)
    return {
      id: made.id,
      publicKey: Buffer.from(made.publicKey).toString('base64url'),
      signCount: made.counter,
      transports: response.response.transports,
    }
  } catch {
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
    /** `required`: the authenticator must say whose credential it is, because the request did not. */
    userHandlePresence: 'required' | 'optional'
    userVerification: 'required' | 'preferred'
  },
): Promise<number | undefined> {
  const { verifyAuthenticationResponse } = await library()
  const { userHandle } = response.response
  if (userHandle === undefined && expected.userHandlePresence === 'required') return undefined
  if (userHandle !== undefined && userHandle !== expected.userHandle) return undefined
  try {
    refuseForeignFrames(response.response.clientDataJSON)
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge: expected.challenge,
      expectedOrigin: [...rp.origins],
      expectedRPID: rp.id,
      requireUserVerification: expected.userVerification === 'required',
      // Counters are compared where they are stored, together with spending the challenge; 0 passes every counter here.
      credential: {
        id: response.id,
        publicKey: new Uint8Array(Buffer.from(expected.publicKey, 'base64url')),
        counter: 0,
      },
    })
    return verified ? authenticationInfo.newCounter : undefined
  } catch {
    return undefined
  }
}

/** The library accepts what a page in a frame of another origin was given. */
function refuseForeignFrames(clientDataJSON: string): void {
  const clientData = JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString('utf8')) as Record<string, unknown>
  if (clientData['crossOrigin'] === true || clientData['topOrigin'] !== undefined) throw new Error('cross-origin')
}

/**
 * We ask for no attestation, so a client sends none, or one by the credential's own key. Certificates are never looked
 * into, since the library may follow addresses in them; nor may anything stand behind the object.
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
