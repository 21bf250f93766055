import { svc } from '../api/client.ts'

type Begun = { challenge_id: string; options: PublicKeyCredentialRequestOptionsJSON }

export const hasPasskeys = (): boolean =>
  typeof PublicKeyCredential === 'function' && 'parseRequestOptionsFromJSON' in PublicKeyCredential

/** The answer of a passkey of an administrator, which is both factors at once. */
export async function passkeyAnswer(): Promise<{ challenge_id: string; assertion_response: unknown }> {
  const { challenge_id, options } = await svc.core.send<Begun>('POST', '/api/admin/auth/passkey/begin', {
    body: {},
    token: null,
  })
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  const credential = await navigator.credentials.get({ publicKey })
  if (!(credential instanceof PublicKeyCredential)) throw new Error('The browser gave no passkey.')
  return { challenge_id, assertion_response: credential.toJSON() }
}

export async function signInByPasskey(): Promise<string> {
  const body = { ...(await passkeyAnswer()), client: 'dashboard' }
  const { token } = await svc.core.send<{ token: string }>('POST', '/api/admin/auth/passkey/finish', {
    body,
    token: null,
  })
  return token
}
