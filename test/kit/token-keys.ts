import { randomBytes } from 'node:crypto'
import type { Keys } from '../../src/features/auth/jwt.ts'

/** Keys of a server that signs with HS256. */
export const testKeys = (more: Partial<Keys> = {}): Keys => ({
  access: randomBytes(32),
  mfa: randomBytes(32),
  hs256: [{ activeFrom: 0, retiredAt: null }],
  published: new Map(),
  lifetimeMs: 900_000,
  ...more,
})
