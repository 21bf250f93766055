import { createHash, randomBytes } from 'node:crypto'
import type { Answer, TestServer } from '../kit/kit.ts'

const REDIRECT = 'https://app.x.test/cb'

type Fields = Record<string, string>

/** An application that a user may grant access to: a public client, registered by the operator. */
export async function oauthApplication(api: TestServer, owner: string, fields: Record<string, unknown> = {}) {
  const ofApp = { name: 'app', ownerUserId: owner }
  const { id: appId } = (await api.call('POST /api/admin/apps', { as: 'admin', json: ofApp })).body
  const json = { appId, name: 'Lion Tracker', clientType: 'public', redirectUris: [REDIRECT], scopes: ['*'], ...fields }
  const made = await api.call('POST /api/admin/oauth/clients', { as: 'admin', json })
  if (made.status !== 201) throw new Error(`client answered ${made.status} ${made.text}`)
  const clientId: string = made.body.client.clientId
  const verifier = randomBytes(32).toString('base64url')
  const request = (more: Record<string, unknown> = {}) => ({
    response_type: 'code',
    client_id: clientId,
    redirect_uri: REDIRECT,
    scope: 'readwrite',
    state: 'state',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...more,
  })
  const headers = { accept: 'application/json' }
  /** Of a confidential client. */
  const secret: string = made.body.clientSecret ?? ''
  const credentials = { client_id: clientId, ...(secret !== '' && { client_secret: secret }) }
  const token = (form: Fields): Promise<Answer> =>
    api.call('POST /api/auth/token', { form: { ...credentials, ...form } })

  return {
    appId: appId as string,
    clientId,
    secret,
    request,
    token,
    revoke: (token: string) => api.call('POST /api/auth/revoke', { form: { ...credentials, token } }),
    authorize: (as: string, more: Fields = {}) =>
      api.call(`GET /api/auth/authorize?${new URLSearchParams(request(more) as Fields)}`, { as, headers }),
    approve: (as: string, more: Record<string, unknown> = {}) =>
      api.call('POST /api/auth/authorize/consent', { as, headers, json: { decision: 'approve', ...request(more) } }),
    redeem: (answer: Answer) =>
      token({
        grant_type: 'authorization_code',
        code: new URL(answer.body.redirect_to).searchParams.get('code') ?? '',
        redirect_uri: REDIRECT,
        code_verifier: verifier,
      }),
    refresh: (refresh_token: string) => token({ grant_type: 'refresh_token', refresh_token }),
    /** All of it: the user approves, and the application has its tokens. */
    async granted(as: string, more: Record<string, unknown> = {}): Promise<{ access: string; refresh: string }> {
      const { status, text, body } = await this.redeem(await this.approve(as, more))
      if (status !== 200) throw new Error(`token answered ${status} ${text}`)
      return { access: body.access_token, refresh: body.refresh_token }
    },
  }
}
