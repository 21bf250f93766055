/** Passkeys between the API's JSON and the browser's buffers. Text for browsers, as dom-script.ts. Offers `passkeys`. */
export const passkeyScript = `
const passkeys = (() => {
  const bytes = (text) =>
    Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0))
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replaceAll('=', '')
  const named = (list) => (list || []).map((one) => ({ ...one, id: bytes(one.id) }))

  /** What browsers say is for developers. */
  const inWords = (error) => {
    if (error.name === 'NotAllowedError') return new Error('The passkey was not used: cancelled, or it took too long.')
    if (error.name === 'InvalidStateError') return new Error('This device already has a passkey of this account.')
    if (error.name === 'SecurityError') return new Error('Passkeys do not work at this address of the server.')
    return error
  }
  const ask = async (promise) => {
    try {
      return await promise
    } catch (error) {
      throw inWords(error)
    }
  }
  const outcome = (credential, response) => ({
    id: credential.id,
    rawId: text(credential.rawId),
    type: credential.type,
    authenticatorAttachment: credential.authenticatorAttachment || undefined,
    clientExtensionResults: credential.getClientExtensionResults(),
    response: { clientDataJSON: text(credential.response.clientDataJSON), ...response },
  })

  return {
    supported: typeof PublicKeyCredential === 'function',

    async create(options) {
      const credential = await ask(navigator.credentials.create({
        publicKey: {
          ...options,
          challenge: bytes(options.challenge),
          user: { ...options.user, id: bytes(options.user.id) },
          excludeCredentials: named(options.excludeCredentials),
        },
      }))
      const { response } = credential
      return outcome(credential, {
        attestationObject: text(response.attestationObject),
        transports: response.getTransports ? response.getTransports() : [],
      })
    },

    async get(options) {
      const credential = await ask(navigator.credentials.get({
        publicKey: {
          ...options,
          challenge: bytes(options.challenge),
          allowCredentials: named(options.allowCredentials),
        },
      }))
      const { response } = credential
      return outcome(credential, {
        authenticatorData: text(response.authenticatorData),
        signature: text(response.signature),
        ...(response.userHandle && { userHandle: text(response.userHandle) }),
      })
    },
  }
})()
`
