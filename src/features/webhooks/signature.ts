import { hmacSha256 } from '../../core/secret.ts'

/** Standard Webhooks: a `whsec_` secret is base64, any other one is taken as its bytes. */
const keyOf = (secret: string): Buffer =>
  secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret)

/** Headers that prove the body came from here; the timestamp keeps a recorded delivery from being replayed later. */
export const signatureHeaders = (
  secret: string,
  message: { id: string; timestamp: number; body: string },
): Record<string, string> => ({
  'X-SVC-Signature': hmacSha256(secret, message.body).toString('hex'),
  'webhook-signature': `v1,${hmacSha256(keyOf(secret), `${message.id}.${message.timestamp}.${message.body}`).toString('base64')}`,
})
