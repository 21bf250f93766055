import type { Clock } from '../../core/clock.ts'
import type { ClientTokens, ClientTokenType, IdTokenClaims } from '../../identity/client-tokens.ts'
import { encodeJson, isSigned, type Keys, newestOf } from './jwt.ts'
import type { SigningKey } from './signing-keys.ts'

const MAX_TOKEN = 16 * 1024

/** Tokens that clients of the OAuth server verify, with the keys of access tokens. Their type keeps them apart from bearers. */
export function clientTokens(keys: () => Keys, clock: Clock): ClientTokens {
  /** While the first published key is on its way, it signs already: clients look an unknown one up. */
  const signer = (): SigningKey | undefined =>
    newestOf(keys(), clock.now())?.[1] ?? [...keys().published.values()].find(({ retiredAt }) => retiredAt === null)

  return {
    algorithms: () => {
      const key = signer()
      return key ? [key.algorithm] : []
    },
    sign(type, claims, seconds = keys().lifetimeMs / 1000) {
      const key = signer()
      if (!key) throw new Error('there is no published key to sign with')
      const iat = Math.floor(clock.now() / 1000)
      const signed = `${headerOf(type, key)}.${encodeJson({ ...claims, iat, exp: iat + seconds })}`
      return `${signed}.${key.sign(signed).toString('base64url')}`
    },
    readIdToken(token) {
      if (token.length > MAX_TOKEN) return undefined
      const [header, payload, signature, ...more] = token.split('.')
      if (payload === undefined || signature === undefined || more.length > 0) return undefined
      const key = [...keys().published.values()].find((one) => headerOf('JWT', one) === header)
      if (!key || !isSigned(signature, `${header}.${payload}`, key)) return undefined
      return JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as IdTokenClaims
    },
  }
}

const headerOf = (typ: ClientTokenType, { algorithm: alg, kid }: SigningKey): string => encodeJson({ alg, typ, kid })
