import { svc } from '../api/client.ts'

type Begun = { challenge_id: string; options: PublicKeyCredentialRequestOptionsJSON }

export const hasPasskeys = (): boolean =>
  typeof PublicKeyCredential === 'function' && 'parseRequestOptionsFromJSON' in PublicKeyCredential

/** A passkey of an administrator, which is both factors at once. */
export async function signInByPasskey(): Promise<string> {
  const { challenge_id, options } = await svc.core.send<Begun>('POST', '/api/admin/auth/passkey/begin', {
    body: {},
    token: null,
  })
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  const credential = await navigator.credentials.get({ publicKey })
  if (!(credential instanceof PublicKeyCredential)) throw new Error('The browser gave no passkey.')
  const body = { challenge_id, assertion_response: credential.toJSON(), client: 'dashboard' }
  const { token } = await svc.core.send<{ token: string }>('POST', '/api/admin/auth/passkey/finish', {
    body,
    token: null,
  })
  return token
}
