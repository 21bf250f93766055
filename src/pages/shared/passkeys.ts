/** Converts passkeys between the API's JSON and the browser's buffers. */

export type CreationOptions = Omit<PublicKeyCredentialCreationOptionsJSON, 'extensions'>
export type RequestOptions = Omit<PublicKeyCredentialRequestOptionsJSON, 'extensions'>

export const hasPasskeys = typeof PublicKeyCredential === 'function'

export async function createPasskey(options: CreationOptions): Promise<object> {
  const publicKey = {
    ...options,
    challenge: bytesOf(options.challenge),
    user: { ...options.user, id: bytesOf(options.user.id) },
    excludeCredentials: descriptorsOf(options.excludeCredentials),
  } as PublicKeyCredentialCreationOptions
  const credential = await completed(navigator.credentials.create({ publicKey }))
  const response = credential.response as AuthenticatorAttestationResponse
  return jsonOf(credential, {
    attestationObject: textOf(response.attestationObject),
    transports: response.getTransports?.() ?? [],
  })
}

export async function usePasskey(options: RequestOptions): Promise<object> {
  const publicKey = {
    ...options,
    challenge: bytesOf(options.challenge),
    allowCredentials: descriptorsOf(options.allowCredentials),
  } as PublicKeyCredentialRequestOptions
  const credential = await completed(navigator.credentials.get({ publicKey }))
  const response = credential.response as AuthenticatorAssertionResponse
  return jsonOf(credential, {
    authenticatorData: textOf(response.authenticatorData),
    signature: textOf(response.signature),
    ...(response.userHandle && { userHandle: textOf(response.userHandle) }),
  })
}

const jsonOf = (credential: PublicKeyCredential, response: object): object => ({
  id: credential.id,
  rawId: textOf(credential.rawId),
  type: credential.type,
  authenticatorAttachment: credential.authenticatorAttachment ?? undefined,
  clientExtensionResults: credential.getClientExtensionResults(),
  response: { clientDataJSON: textOf(credential.response.clientDataJSON), ...response },
})

/** Replaces the browsers' messages, which are for developers. */
const ERROR_MESSAGES = new Map([
  ['NotAllowedError', 'The passkey was not used: cancelled, or it took too long.'],
  ['InvalidStateError', 'This device already has a passkey of this account.'],
  ['SecurityError', 'Passkeys do not work at this address of the server.'],
])

async function completed(ceremony: Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    return (await ceremony) as PublicKeyCredential
  } catch (error) {
    const message = error instanceof Error && ERROR_MESSAGES.get(error.name)
    throw message ? new Error(message) : error
  }
}

const descriptorsOf = (list: readonly PublicKeyCredentialDescriptorJSON[] = []) =>
  list.map((one) => ({ ...one, id: bytesOf(one.id) }))

/** Base64url, as in WebAuthn's JSON. */
const bytesOf = (text: string) =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0))

const textOf = (buffer: ArrayBuffer): string =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
