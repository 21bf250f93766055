import { hmacSha256 } from '../../core/secret.ts'

/** Standard Webhooks: a `whsec_` secret is base64, any other is used as its UTF-8 bytes. */
const keyOf = (secret: string): Buffer =>
  secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret)

/** Headers that prove the origin of the body; the signed timestamp prevents a later replay. */
export const signatureHeaders = (
  secret: string,
  message: { id: string; timestamp: number; body: string },
): Record<string, string> => ({
  'X-SVC-Signature': hmacSha256(secret, message.body).toString('hex'),
  'webhook-signature': `v1,${hmacSha256(keyOf(secret), `${message.id}.${message.timestamp}.${message.body}`).toString('base64')}`,
})
