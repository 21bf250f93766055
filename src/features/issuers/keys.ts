import type { CryptoKey, JWK } from 'jose'
import type { Outgoing } from '../../http/out/outgoing.ts'

const FETCH_MS = 5_000
const MAX_BYTES = 256 * 1024
const MAX_KEYS = 100
/** An unknown key is looked for at most once in this time, however many tokens name one. */
const LOOK_AGAIN_MS = 60_000
/** Keys that the issuer has withdrawn are forgotten after this time. */
const STALE_MS = 600_000

type Found = { keys: ReadonlyMap<string, JWK>; at: number }
type Located = { issuer: string; jwks_url: string }

/** The published keys of one issuer. Callers with a known key wait for no one. */
export class IssuerKeys {
  readonly #outgoing: Outgoing
  readonly #from: Located
  readonly #imported = new Map<string, Promise<CryptoKey | Uint8Array>>()
  #found: Found | undefined
  #looking: Promise<void> | undefined
  #lookedAt = Number.NEGATIVE_INFINITY

  constructor(outgoing: Outgoing, from: Located) {
    this.#outgoing = outgoing
    this.#from = from
  }

  /** Undefined when the issuer has no such key for this algorithm, or does not answer. */
  async find(kid: string | undefined, algorithm: string): Promise<CryptoKey | Uint8Array | undefined> {
    const known = this.#known(kid, algorithm)
    if (known && this.#found && performance.now() - this.#found.at > STALE_MS) void this.#look()
    const key = known ?? (await this.#look().then(() => this.#known(kid, algorithm)))
    return key && this.#import(key, algorithm)
  }

  #known(kid: string | undefined, algorithm: string): JWK | undefined {
    const keys = [...(this.#found?.keys.values() ?? [])].filter((key) => fits(key, algorithm))
    // RFC 7515, 4.1.4: without a name the only key that fits is meant.
    return kid === undefined ? (keys.length === 1 ? keys[0] : undefined) : keys.find((key) => key.kid === kid)
  }

  #import(key: JWK, algorithm: string): Promise<CryptoKey | Uint8Array> {
    const name = JSON.stringify([key, algorithm])
    const known = this.#imported.get(name)
    if (known) return known
    const made = import('jose').then(({ importJWK }) => importJWK(key, algorithm))
    if (this.#imported.size > MAX_KEYS) this.#imported.clear()
    this.#imported.set(name, made)
    return made
  }

  /** One at a time. While the issuer is away, what was known stays good. */
  #look(): Promise<void> {
    if (this.#looking) return this.#looking
    if (performance.now() - this.#lookedAt < LOOK_AGAIN_MS) return Promise.resolve()
    this.#lookedAt = performance.now()
    const looking = this.#fetch()
      .catch(() => undefined)
      .then((found) => {
        if (found) this.#found = found
        this.#looking = undefined
      })
    this.#looking = looking
    return looking
  }

  async #fetch(): Promise<Found | undefined> {
    const address = this.#from.jwks_url || (await this.#discovered())
    const { keys } = Object(await this.#json(address)) as { keys?: unknown }
    if (!Array.isArray(keys)) return undefined
    const usable = keys.slice(0, MAX_KEYS).filter((key): key is JWK => typeof Object(key).kty === 'string')
    return { keys: new Map(usable.map((key, i) => [key.kid ?? `#${i}`, key])), at: performance.now() }
  }

  /** OpenID Connect Discovery, 4.3: the document names the issuer it is of. */
  async #discovered(): Promise<string> {
    const { issuer } = this.#from
    const document = await this.#json(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
    const { issuer: named, jwks_uri } = Object(document) as { issuer?: unknown; jwks_uri?: unknown }
    if (named !== issuer || typeof jwks_uri !== 'string') throw new Error('the issuer does not say where its keys are')
    return jwks_uri
  }

  async #json(url: string): Promise<unknown> {
    const { status, body } = await this.#outgoing.request({
      method: 'GET',
      url,
      timeoutMs: FETCH_MS,
      maxBytes: MAX_BYTES,
    })
    if (status !== 200) throw new Error(`the issuer answered ${status}`)
    return JSON.parse(body)
  }
}

/** Of the kind that the algorithm needs, and for signatures. Secrets are never among them. */
function fits({ kty, crv, use, alg }: JWK, algorithm: string): boolean {
  if (use !== undefined && use !== 'sig') return false
  if (alg !== undefined && alg !== algorithm) return false
  if (/^(RS|PS)/.test(algorithm)) return kty === 'RSA'
  if (algorithm === 'EdDSA') return kty === 'OKP' && crv === 'Ed25519'
  const curves: Readonly<Record<string, string>> = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' }
  return kty === 'EC' && crv === curves[algorithm]
}
