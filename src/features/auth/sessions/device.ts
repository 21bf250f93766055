import type { Call } from '../../../http/route.ts'

/** What a session remembers of where it was opened, for its owner to recognise. */
export type Device = { userAgent: string; ip: string }

const MAX_USER_AGENT = 512

export const deviceOf = (call: Pick<Call, 'headers' | 'ip'>): Device => ({
  userAgent: (call.headers['user-agent'] ?? '').slice(0, MAX_USER_AGENT),
  ip: call.ip,
})
