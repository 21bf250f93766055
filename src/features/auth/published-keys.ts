import type { Clock } from '../../core/clock.ts'
import * as t from '../../core/json-type.ts'
import { json, type Route, route } from '../../http/route.ts'
import type { Keys } from './jwt.ts'

const CACHED_SECONDS = 60

/** RFC 7517: the keys that verify access tokens, the next one included. */
export const publishedKeys = (keys: () => Keys, clock: Clock): Route =>
  route('GET /.well-known/jwks.json', {
    summary: 'The public keys of access and ID tokens, as a JSON Web Key Set',
    auth: 'none',
    anyOrigin: true,
    answers: { 200: t.object({ keys: t.array(t.record(t.string())) }) },
    handle: async () => {
      const { published, lifetimeMs } = keys()
      const inUse = [...published.values()].filter(
        ({ retiredAt }) => retiredAt === null || clock.now() < retiredAt + lifetimeMs,
      )
      const jwks = inUse.map(({ kid, algorithm: alg, publicKey }) => ({
        ...publicKey.export({ format: 'jwk' }),
        kid,
        alg,
        use: 'sig',
      }))
      return { ...json(200, { keys: jwks }), headers: { 'Cache-Control': `public, max-age=${CACHED_SECONDS}` } }
    },
  })
