import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { SignedUp, TestServer } from '../kit/kit.ts'

/** A software authenticator and its browser, written apart from the server; every field can be made wrong. */

const ORIGIN = 'https://app.x.test'
export const passkeyConfig = { 'auth.webauthn_enabled': true, 'server.public_base_url': ORIGIN }

const [UP, UV, BE, BS, AT, ED] = [0x01, 0x04, 0x08, 0x10, 0x40, 0x80]

export type Algorithm = 'ES256' | 'EdDSA' | 'RS256'

// biome-ignore lint/suspicious/noExplicitAny: options are what the server said
type Options = any

/** What a lying client changes. */
export type Lies = {
  type?: string
  origin?: string
  challenge?: string
  crossOrigin?: boolean
  topOrigin?: string
  rpId?: string
  flags?: number
  counter?: number
  userHandle?: string | null
  signWith?: KeyObject
  /** Of the credential, as the client names it. */
  id?: string
  /** The last word on the bytes of the authenticator. */
  bytes?: (bytes: Buffer) => Buffer
  /** As `bytes`, of the attestation object. */
  object?: (bytes: Buffer) => Buffer
  format?: { fmt: string; attStmt: Cbor }
  cose?: Cbor
}

type Cbor = number | string | Buffer | boolean | Cbor[] | Map<Cbor, Cbor>

/** RFC 8949, as much of it as passkeys need. */
function cbor(value: Cbor): Buffer {
  const head = (major: number, n: number): Buffer => {
    if (n < 24) return Buffer.from([(major << 5) | n])
    if (n < 256) return Buffer.from([(major << 5) | 24, n])
    const bytes = Buffer.alloc(3, (major << 5) | 25)
    bytes.writeUInt16BE(n, 1)
    return bytes
  }
  if (typeof value === 'number') return value >= 0 ? head(0, value) : head(1, -1 - value)
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)])
  if (typeof value === 'boolean') return Buffer.from([value ? 0xf5 : 0xf4])
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value])
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(cbor)])
  return Buffer.concat([head(5, value.size), ...[...value].flatMap(([k, v]) => [cbor(k), cbor(v)])])
}

const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest()
const fromText = (text: unknown): Buffer => Buffer.from(String(text ?? ''), 'base64url')

export function keyPair(algorithm: Algorithm, rsaBits = 2048): { privateKey: KeyObject; cose: Map<Cbor, Cbor> } {
  if (algorithm === 'RS256') {
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: rsaBits })
    const { n, e } = publicKey.export({ format: 'jwk' })
    return {
      privateKey,
      cose: new Map<Cbor, Cbor>([
        [1, 3],
        [3, -257],
        [-1, fromText(n)],
        [-2, fromText(e)],
      ]),
    }
  }
  if (algorithm === 'EdDSA') {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    const { x } = publicKey.export({ format: 'jwk' })
    return {
      privateKey,
      cose: new Map<Cbor, Cbor>([
        [1, 1],
        [3, -8],
        [-1, 6],
        [-2, fromText(x)],
      ]),
    }
  }
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x, y } = publicKey.export({ format: 'jwk' })
  const cose = new Map<Cbor, Cbor>([
    [1, 2],
    [3, -7],
    [-1, 1],
    [-2, fromText(x)],
    [-3, fromText(y)],
  ])
  return { privateKey, cose }
}

/** One credential on one device. */
export class Passkey {
  readonly id: string
  readonly privateKey: KeyObject
  readonly #cose: Map<Cbor, Cbor>
  readonly #countsUp: boolean
  counter = 0
  userHandle = ''

  constructor(options: { algorithm?: Algorithm; idBytes?: number; counts?: boolean; rsaBits?: number } = {}) {
    const { algorithm = 'ES256', idBytes = 32, counts = true, rsaBits } = options
    const { privateKey, cose } = keyPair(algorithm, rsaBits)
    this.id = randomBytes(idBytes).toString('base64url')
    this.privateKey = privateKey
    this.#cose = cose
    this.#countsUp = counts
  }

  #clientData(type: string, options: Options, lies: Lies): Buffer {
    return Buffer.from(
      JSON.stringify({
        type: lies.type ?? type,
        challenge: lies.challenge ?? options.challenge,
        origin: lies.origin ?? ORIGIN,
        crossOrigin: lies.crossOrigin ?? false,
        ...(lies.topOrigin && { topOrigin: lies.topOrigin }),
      }),
    )
  }

  #authenticatorData(rpId: string, flags: number, lies: Lies, attested: Buffer = Buffer.alloc(0)): Buffer {
    if (this.#countsUp) this.counter++
    const counter = Buffer.alloc(4)
    counter.writeUInt32BE(lies.counter ?? this.counter)
    const data = Buffer.concat([sha256(lies.rpId ?? rpId), Buffer.from([lies.flags ?? flags]), counter, attested])
    return lies.bytes ? lies.bytes(data) : data
  }

  /** navigator.credentials.create */
  create(options: Options, lies: Lies = {}) {
    const clientData = this.#clientData('webauthn.create', options, lies)
    this.userHandle = options.user.id
    const id = Buffer.from(this.id, 'base64url')
    const length = Buffer.alloc(2)
    length.writeUInt16BE(id.length)
    const attested = Buffer.concat([Buffer.alloc(16), length, id, cbor(lies.cose ?? this.#cose)])
    const authData = this.#authenticatorData(options.rp.id, UP | UV | BE | BS | AT, lies, attested)
    const { fmt, attStmt } = lies.format ?? { fmt: 'none', attStmt: new Map() }
    const object = cbor(
      new Map<Cbor, Cbor>([
        ['fmt', fmt],
        ['attStmt', attStmt],
        ['authData', authData],
      ]),
    )
    return {
      id: lies.id ?? this.id,
      rawId: lies.id ?? this.id,
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON: clientData.toString('base64url'),
        attestationObject: (lies.object ? lies.object(object) : object).toString('base64url'),
        transports: ['internal'],
      },
    }
  }

  /** navigator.credentials.get */
  get(options: Options, lies: Lies = {}) {
    const clientData = this.#clientData('webauthn.get', options, lies)
    const authData = this.#authenticatorData(options.rpId, UP | UV | BE | BS, lies)
    const signed = Buffer.concat([authData, sha256(clientData)])
    const key = lies.signWith ?? this.privateKey
    const signature = sign(key.asymmetricKeyType === 'ed25519' ? null : 'sha256', signed, key)
    const userHandle = lies.userHandle === undefined ? this.userHandle : lies.userHandle
    return {
      id: lies.id ?? this.id,
      rawId: lies.id ?? this.id,
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON: clientData.toString('base64url'),
        authenticatorData: authData.toString('base64url'),
        signature: signature.toString('base64url'),
        ...(userHandle !== null && { userHandle }),
      },
    }
  }
}

/** Everything that can be wrong with an assertion, whatever it is for; `other` belongs to another user. */
export const assertionLies = (other: Passkey): Record<string, Lies> => ({
  'another origin': { origin: 'https://evil.test' },
  'a page of plain http': { origin: 'http://app.x.test' },
  'another relying party': { rpId: 'evil.test' },
  'the type of an enrolment': { type: 'webauthn.create' },
  'another challenge': { challenge: 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' },
  'a frame of another site': { crossOrigin: true },
  'the top origin of another site': { topOrigin: 'https://evil.test' },
  'the handle of another user': { userHandle: other.userHandle },
  'a handle of 65 bytes': { userHandle: Buffer.alloc(65).toString('base64url') },
  'nobody present': { flags: UV },
  'a backup of what cannot be backed up': { flags: UP | UV | BS },
  'the key of another': { signWith: other.privateKey },
  'a key of another algorithm': { signWith: keyPair('RS256').privateKey },
  'an id nobody has': { id: 'AAAAAAAAAAAAAAAAAAAAAA' },
  'truncated data': { bytes: (bytes) => bytes.subarray(0, 36) },
  'bytes behind the data': { bytes: (bytes) => Buffer.concat([bytes, Buffer.alloc(4)]) },
  'extensions that are not there': { flags: UP | UV | ED },
  'extensions nested ten thousand deep': {
    flags: UP | UV | ED,
    bytes: (bytes) => Buffer.concat([bytes, Buffer.alloc(7000, 0x81)]),
  },
})

/** Signs up and adds a passkey; the token is from before, so its session is aal1. */
export async function signUpWithPasskey(
  api: TestServer,
  email: string,
  passkey: Passkey = new Passkey(),
): Promise<SignedUp & { passkey: Passkey }> {
  const signedUp = await api.signUp(email)
  await addPasskey(api, signedUp.token, passkey)
  return { ...signedUp, passkey }
}

export async function addPasskey(api: TestServer, token: string, passkey: Passkey, displayName = 'phone') {
  const { status, body } = await api.call('POST /api/auth/mfa/webauthn/enroll', { as: token })
  if (status !== 200) throw new Error(`enroll answered ${status} ${JSON.stringify(body)}`)
  const json = { display_name: displayName, attestation_response: passkey.create(body) }
  const confirmed = await api.call('POST /api/auth/mfa/webauthn/enroll/confirm', { as: token, json })
  if (confirmed.status !== 200) throw new Error(`confirm answered ${confirmed.status} ${confirmed.text}`)
  return confirmed.body.credential
}

/** A challenge of the second factor. */
export async function askPasskey(api: TestServer, as: string): Promise<{ challenge_id: string; options: Options }> {
  const { status, body } = await api.call('POST /api/auth/mfa/webauthn/challenge', { as })
  if (status !== 200) throw new Error(`challenge answered ${status} ${JSON.stringify(body)}`)
  return body
}

/** Password, then passkey; resolves to the tokens of an aal2 session. */
export async function signInWithBoth(api: TestServer, email: string, passkey: Passkey) {
  const login = await api.call('POST /api/auth/login', { json: { email, password: 'long enough password' } })
  const as = login.body.mfa_token
  const { challenge_id, options } = await askPasskey(api, as)
  const json = { challenge_id, assertion_response: passkey.get(options) }
  const { status, body } = await api.call('POST /api/auth/mfa/webauthn/verify', { as, json })
  if (status !== 200) throw new Error(`verify answered ${status} ${JSON.stringify(body)}`)
  return body as SignedUp
}
