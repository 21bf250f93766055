import { isBase64Url } from './base64url.ts'

/** WebAuthn §5.8.3 of the third level: the maximum length of a credential id. */
export const MAX_CREDENTIAL_ID = 1023
const MAX_PART = 8192
const MAX_USER_HANDLE = 64

const TRANSPORTS = new Set(['ble', 'cable', 'hybrid', 'internal', 'nfc', 'smart-card', 'usb'])

type Credential<Response> = {
  id: string
  rawId: string
  type: 'public-key'
  clientExtensionResults: Record<string, never>
  response: Response
}
export type Attestation = Credential<{ clientDataJSON: string; attestationObject: string; transports: string[] }>
export type Assertion = Credential<{
  clientDataJSON: string
  authenticatorData: string
  signature: string
  userHandle?: string
}>

/** The fields we use of a client's JSON, or undefined if it is malformed. */
export function readAttestation(input: unknown): Attestation | undefined {
  const { clientDataJSON, attestationObject, transports } = partsOf(input)
  if (!isBase64Url(clientDataJSON, MAX_PART) || !isBase64Url(attestationObject, MAX_PART)) return undefined
  return credential(input, { clientDataJSON, attestationObject, transports: readTransports(transports) })
}

export function readAssertion(input: unknown): Assertion | undefined {
  const { clientDataJSON, authenticatorData, signature, userHandle } = partsOf(input)
  if (!isBase64Url(clientDataJSON, MAX_PART) || !isBase64Url(authenticatorData, MAX_PART)) return undefined
  if (!isBase64Url(signature, MAX_PART)) return undefined
  // The user handle is optional if the request listed credentials.
  const isSilent = userHandle === undefined || userHandle === null || userHandle === ''
  if (!isSilent && !isBase64Url(userHandle, MAX_USER_HANDLE)) return undefined
  return credential(input, { clientDataJSON, authenticatorData, signature, ...(!isSilent && { userHandle }) })
}

const fieldsOf = (input: unknown): Record<string, unknown> =>
  typeof input === 'object' && input !== null ? (input as Record<string, unknown>) : {}

const partsOf = (input: unknown): Record<string, unknown> => fieldsOf(fieldsOf(input)['response'])

function credential<Response>(input: unknown, response: Response): Credential<Response> | undefined {
  const { id, rawId, type } = fieldsOf(input)
  if (!isBase64Url(id, MAX_CREDENTIAL_ID) || rawId !== id || type !== 'public-key') return undefined
  return { id, rawId: id, type, clientExtensionResults: {}, response }
}

const readTransports = (input: unknown): string[] =>
  Array.isArray(input) ? [...TRANSPORTS].filter((name) => input.includes(name)) : []
