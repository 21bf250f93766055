import { createHmac } from 'node:crypto'
import type { SignedUp, TestServer } from '../kit/kit.ts'

/** An authenticator app, written apart from the server: it knows what the QR code says and what time it is. */
export function authenticator(uri: string) {
  const { searchParams } = new URL(uri)
  const period = Number(searchParams.get('period')) * 1000
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  const bits = [...(searchParams.get('secret') ?? '')].map((c) => alphabet.indexOf(c).toString(2).padStart(5, '0'))
  const bytes = bits.join('').match(/.{8}/g) ?? []
  const secret = Buffer.from(bytes.map((byte) => Number.parseInt(byte, 2)))
  return {
    /** `steps` periods from now. */
    code(steps = 0): string {
      const counter = Buffer.alloc(8)
      counter.writeBigInt64BE(BigInt(Math.floor(Date.now() / period) + steps))
      const mac = createHmac('sha1', secret).update(counter).digest()
      const at = (mac.at(-1) ?? 0) % 16
      return String((mac.readUInt32BE(at) % 2 ** 31) % 1_000_000).padStart(6, '0')
    },
    /** A code of none of the periods near now. */
    wrongCode(): string {
      const near = [-2, -1, 0, 1, 2].map((steps) => this.code(steps))
      return ['000000', '111111', '222222', '333333', '444444', '555555'].find((code) => !near.includes(code)) ?? ''
    },
    /** Waits for the next period if this one is about to end, for tests about codes at the edge of the window. */
    async steady(): Promise<void> {
      const left = period - (Date.now() % period)
      if (left < 5_000) await new Promise((resolve) => setTimeout(resolve, left + 50))
    },
  }
}

export type Authenticator = ReturnType<typeof authenticator>

/** Signs up and adds an authenticator app; the token is from before, so its session is aal1. */
export async function signUpWithTotp(api: TestServer, email: string): Promise<SignedUp & { app: Authenticator }> {
  const signedUp = await api.signUp(email)
  return { ...signedUp, app: await enrollTotp(api, signedUp.token, signedUp.user.id) }
}

export async function enrollTotp(api: TestServer, token: string, userId: string): Promise<Authenticator> {
  const { body, status } = await api.call('POST /api/auth/mfa/totp/enroll', { as: token })
  if (status !== 200) throw new Error(`enroll answered ${status} ${JSON.stringify(body)}`)
  const app = authenticator(body.uri)
  const json = { code: app.code() }
  const confirmed = await api.call('POST /api/auth/mfa/totp/enroll/confirm', { as: token, json })
  if (confirmed.status !== 200) throw new Error(`confirm answered ${confirmed.status} ${confirmed.text}`)
  await forgetSteps(api, userId)
  return app
}

/** As if the codes of this minute had not been used, so that tests need not wait for the next one. */
export const forgetSteps = (api: TestServer, userId: string) =>
  api.sql(`update svc.mfa_factors set last_step = -1 where user_id = $1`, [userId])

/** The first factor of a user who has a second; resolves to the MFA token. */
export async function firstFactor(api: TestServer, email: string): Promise<string> {
  const { status, body } = await api.call('POST /api/auth/login', { json: { email, password: 'long enough password' } })
  if (status !== 200 || body.mfa_pending !== true) throw new Error(`login answered ${status} ${JSON.stringify(body)}`)
  return body.mfa_token
}

export async function challenge(api: TestServer, method: 'totp' | 'email' | 'sms', as: string): Promise<string> {
  const { status, body } = await api.call(`POST /api/auth/mfa/${method}/challenge`, { as })
  if (status !== 200) throw new Error(`challenge answered ${status} ${JSON.stringify(body)}`)
  return body.challenge_id
}

/** Both factors; resolves to the tokens of an aal2 session. */
export async function signInWithTotp(api: TestServer, email: string, userId: string, app: Authenticator) {
  const as = await firstFactor(api, email)
  await forgetSteps(api, userId)
  const json = { challenge_id: await challenge(api, 'totp', as), code: app.code() }
  const { status, body } = await api.call('POST /api/auth/mfa/totp/verify', { as, json })
  if (status !== 200) throw new Error(`verify answered ${status} ${JSON.stringify(body)}`)
  return body as SignedUp
}

export const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

/** The text as a word of its own; six digits may stand in any request id by chance. */
export const alone = (text: string): RegExp => new RegExp(`(?<![\\w-])${text}(?![\\w-])`)
