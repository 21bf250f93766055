import { accountsOf, type CallOptions, type Core, segment } from './core.ts'

export type Passkey = {
  credential_id: string
  display_name: string
  transports: string[]
  created_at: string
  last_used_at?: string
}

type Challenge = { challenge_id: string; options: PublicKeyCredentialRequestOptionsJSON }

async function assertion({ challenge_id, options }: Challenge) {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  const credential = (await navigator.credentials.get({ publicKey })) as PublicKeyCredential
  return { challenge_id, assertion_response: credential.toJSON() }
}

/** Signing in with a passkey, as a second factor too, and the passkeys of an account. After `createAuth`. */
export function createPasskeys(core: Core) {
  const accounts = accountsOf(core)
  const { open, own, signedIn } = accounts
  accounts.passkey = async (ask, call) =>
    ask('webauthn/verify', await assertion(await ask('webauthn/challenge', undefined, call)), call)
  const path = 'mfa/webauthn/credentials'
  return {
    /** Of this address, or whichever the person chooses. */
    async login(account: { email?: string } = {}, call?: CallOptions) {
      const path = account.email ? 'webauthn/login' : 'webauthn/login/discover'
      const begun = await open<Challenge>(`${path}/begin`, account.email ? account : undefined, call)
      return signedIn(await open(`${path}/finish`, await assertion(begun), call))
    },
    async add({ name = '' }: { name?: string } = {}, call?: CallOptions): Promise<Passkey> {
      const options = await own<PublicKeyCredentialCreationOptionsJSON>('POST', 'mfa/webauthn/enroll', undefined, call)
      const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
      const made = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential
      const body = { display_name: name, attestation_response: made.toJSON() }
      return (await own<{ credential: Passkey }>('POST', 'mfa/webauthn/enroll/confirm', body, call)).credential
    },
    list: async (call?: CallOptions) =>
      (await own<{ credentials: Passkey[] }>('GET', path, undefined, call)).credentials,
    rename: ({ id, name }: { id: string; name: string }, call?: CallOptions) =>
      own<Passkey>('PATCH', `${path}/${segment(id)}`, { display_name: name }, call),
    remove: ({ id }: { id: string }, call?: CallOptions) =>
      own<void>('DELETE', `${path}/${segment(id)}`, undefined, call),
  }
}
