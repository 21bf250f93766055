import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  scrypt as scryptWithCallback,
  timingSafeEqual,
} from 'node:crypto'
import { promisify } from 'node:util'
import { dropMemory } from '../../../core/drop-memory.ts'
import { deriveKey } from '../../../core/secret.ts'
import { type CompressionMethod, compressed, expanded } from './compression.ts'

const scrypt = promisify<string, Buffer, number, object, Buffer>(scryptWithCallback)

/** An object of a backup target that does not carry our seal. */
export class SealError extends Error {}

export type SealKeys = { passphrase?: string | undefined; rootSecret?: string | undefined }

type Bytes = AsyncIterable<Buffer> | Iterable<Buffer>

const MAGIC = Buffer.from('SVCB\x01')
/** Encrypted and authenticated by a key of the passphrase (AES-256-GCM), or authenticated by one of the root secret. */
const [GCM, HMAC] = [1, 2]
const SALT = 16
const HEADER = MAGIC.length + 1 + 2 * SALT
/** Flags and length in front of each chunk. */
const CHUNK_HEADER = 5
const IS_LAST = 1
const FLAGS = { gzip: 2, zstd: 4, brotli: 8 } as const
const METHODS = ['gzip', 'zstd', 'brotli'] as const
/** Bytes of a chunk before it is compressed: a thread is done with it after a millisecond or two, and others get their turn. */
export const CHUNK = 2 ** 18
/** Nothing longer is ever opened, so a small object cannot grow large. */
export const MOST_CHUNK = 2 ** 20
/** Chunks compressed at a time while another one fills. */
export const AHEAD = 2
/** 32 MiB and about a tenth of a second for each guess. */
const SCRYPT = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 2 ** 20 }
const MOST_SALTS = 1000

const tagBytes = (mode: number): number => (mode === GCM ? 16 : 32)

/**
 * Seals what leaves for a backup target and opens what comes back. A sealed object is a header and chunks of 256 KiB,
 * each compressed, then encrypted (with a passphrase) and authenticated. Its key is made for this object alone, from its
 * name, so that none takes another's place; the number of a chunk and whether it is the last are part of its tag, so that
 * none is moved, repeated or cut off.
 */
export class Seals {
  readonly #keys: SealKeys
  readonly #bySalt = new Map<string, Promise<Buffer>>()
  /** One for each process that writes: deriving is slow on purpose. */
  readonly #ownSalt = randomBytes(SALT)

  constructor(keys: SealKeys) {
    this.#keys = keys
  }

  get isEncrypted(): boolean {
    return Boolean(this.#keys.passphrase)
  }

  /**
   * `name` identifies the object in its target. Parts of the source need be good until the next is taken. `press`: chunks are
   * compressed by another way than on the threads of Node.
   */
  async *seal(name: string, source: Bytes, press: Press = compress): AsyncGenerator<Buffer> {
    const writer = await this.writer(name)
    yield writer.header
    const ahead: { chunk: Buffer; made: Promise<Compressed> }[] = []
    // Used again, because what a collector has to find grows as fast as the database is read.
    const spare: Buffer[] = []
    const sealOldest = async (isLast: boolean): Promise<Buffer> => {
      const { made, chunk } = ahead.shift() as (typeof ahead)[number]
      const compressed = await made
      const sealed = writer.chunk(compressed, isLast)
      compressed.release?.()
      spare.push(chunk)
      return sealed
    }
    for await (const chunk of inChunks(source, spare)) {
      const made = press(chunk)
      // Its failure is that of the wait for it.
      made.catch(() => {})
      ahead.push({ chunk, made })
      if (ahead.length > AHEAD) yield await sealOldest(false)
    }
    while (ahead.length > 0) yield await sealOldest(ahead.length === 1)
    if (!writer.isEnded) yield writer.chunk(await compress(Buffer.alloc(0)), true)
  }

  async sealText(name: string, text: string): Promise<Buffer> {
    const parts: Buffer[] = []
    for await (const part of this.seal(name, [Buffer.from(text)])) parts.push(part)
    return Buffer.concat(parts)
  }

  /** For an object that grows: it has no last chunk until its writer makes one. */
  async writer(name: string): Promise<SealWriter> {
    const mode = this.isEncrypted ? GCM : HMAC
    const [salt, nonce] = [this.#ownSalt, randomBytes(SALT)]
    const key = objectKey(await this.#master(mode, salt), nonce, name)
    return new SealWriter(mode, key, Buffer.concat([MAGIC, Buffer.from([mode]), salt, nonce]))
  }

  /** Chunks as they were written, each authenticated before it is expanded. `openEnded`: the last one may be missing. */
  async *open(
    name: string,
    source: Bytes,
    options: { openEnded?: boolean; isChecked?: boolean } = {},
  ): AsyncGenerator<Buffer> {
    const reader = new Reader(source)
    try {
      const header = await reader.take(HEADER)
      if (!header?.subarray(0, MAGIC.length).equals(MAGIC)) throw notOurs(name)
      const mode = header[MAGIC.length] ?? 0
      const [salt, nonce] = [header.subarray(HEADER - 2 * SALT, HEADER - SALT), header.subarray(HEADER - SALT)]
      const key = objectKey(await this.#master(mode, Buffer.from(salt)), nonce, name)
      for (let index = 0; ; index++) {
        const head = await reader.take(CHUNK_HEADER)
        if (!head) {
          if (options.openEnded) return
          throw new SealError(`${name} in the backup target is cut off`)
        }
        const [flags, length] = [head[0] ?? 0, head.readUInt32BE(1)]
        if (length > MOST_CHUNK) throw notOurs(name)
        const body = await reader.take(length + tagBytes(mode))
        if (!body) {
          // A writer that was killed leaves half a chunk at the end.
          if (options.openEnded) return
          throw new SealError(`${name} in the backup target is cut off`)
        }
        const plain = authenticated(mode, key, { index, head, body, length })
        if (!plain) throw notOurs(name)
        if (!options.isChecked) yield await expand(name, flags, plain)
        if (flags & IS_LAST) {
          if (await reader.take(1)) throw notOurs(name)
          return
        }
      }
    } finally {
      await reader.close()
    }
  }

  /** Reads an object to its end and keeps nothing of it. */
  async check(name: string, source: Bytes): Promise<void> {
    for await (const _ of this.open(name, source, { isChecked: true }));
  }

  async openText(name: string, source: Bytes, mostBytes: number): Promise<string> {
    const parts: Buffer[] = []
    let bytes = 0
    for await (const part of this.open(name, source)) {
      bytes += part.length
      if (bytes > mostBytes) throw new SealError(`${name} in the backup target is larger than it can be`)
      parts.push(part)
    }
    return Buffer.concat(parts).toString('utf8')
  }

  /**
   * Names for what is sealed for `owner`: the first by the key that seals now. They tell keys apart and are as slow to guess
   * as the seals.
   */
  async tags(owner: string): Promise<string[]> {
    const salt = createHash('sha256').update(owner).digest().subarray(0, SALT)
    const { passphrase, rootSecret } = this.#keys
    const modes = [...(passphrase ? [GCM] : []), ...(rootSecret ? [HMAC] : [])]
    const keys = await Promise.all(modes.map((mode) => this.#master(mode, salt)))
    return keys.map((key) => objectKey(key, salt, `tag of ${owner}`).toString('hex').slice(0, 16))
  }

  #master(mode: number, salt: Buffer): Promise<Buffer> {
    const { passphrase, rootSecret } = this.#keys
    if (mode === HMAC && rootSecret) return Promise.resolve(deriveKey(rootSecret, '', 'backup seal'))
    if (mode === HMAC) throw new SealError('this backup is sealed by the root secret: give --root-secret FILE')
    if (mode !== GCM) throw new SealError('this backup was written by another version')
    if (!passphrase) throw new SealError('this backup is encrypted: set backup.passphrase or backup.key_file')
    const id = salt.toString('hex')
    const known = this.#bySalt.get(id)
    if (known) return known
    if (this.#bySalt.size >= MOST_SALTS) this.#bySalt.clear()
    const made = scrypt(passphrase, salt, 32, SCRYPT)
    this.#bySalt.set(id, made)
    return made
  }
}

const notOurs = (name: string): SealError =>
  new SealError(`the seal of ${name} does not fit: it was changed, or its passphrase or root secret is another one`)

export type Compressed = { bytes: Buffer; flags: number; release?: () => void }
export type Press = (chunk: Buffer) => Promise<Compressed>

export const flagsOf = (method: CompressionMethod): number => (method === 'none' ? 0 : FLAGS[method])

export const compress: Press = async (chunk) => {
  const { bytes, method } = await compressed(chunk)
  return { bytes, flags: flagsOf(method) }
}

async function expand(name: string, flags: number, bytes: Buffer): Promise<Buffer> {
  const method = METHODS.find((one) => flags & FLAGS[one])
  if (!method) return bytes
  try {
    return await expanded(bytes, method, MOST_CHUNK)
  } catch (error) {
    throw error instanceof RangeError ? new SealError(`${name} in the backup target is larger than it can be`) : error
  }
}

/** Makes the header and the chunks of one object. */
export class SealWriter {
  readonly header: Buffer
  readonly #mode: number
  readonly #key: Buffer
  #index = 0
  isEnded = false

  constructor(mode: number, key: Buffer, header: Buffer) {
    this.#mode = mode
    this.#key = key
    this.header = header
  }

  chunk({ bytes, flags }: Compressed, isLast: boolean): Buffer {
    const head = Buffer.allocUnsafe(CHUNK_HEADER)
    head[0] = flags | (isLast ? IS_LAST : 0)
    head.writeUInt32BE(bytes.length, 1)
    const index = this.#index++
    this.isEnded = isLast
    if (this.#mode === HMAC) return Buffer.concat([head, bytes, macOf(this.#key, index, head, bytes)])
    const cipher = createCipheriv('aes-256-gcm', this.#key, ivOf(index)).setAAD(head)
    const encrypted = cipher.update(bytes)
    const sealed = Buffer.concat([head, encrypted, cipher.final(), cipher.getAuthTag()])
    dropMemory(encrypted)
    return sealed
  }
}

type Chunk = { index: number; head: Buffer; body: Buffer; length: number }

function authenticated(mode: number, key: Buffer, { index, head, body, length }: Chunk): Buffer | undefined {
  const [payload, tag] = [body.subarray(0, length), body.subarray(length)]
  if (mode === HMAC) return timingSafeEqual(macOf(key, index, head, payload), tag) ? payload : undefined
  const decipher = createDecipheriv('aes-256-gcm', key, ivOf(index), { authTagLength: 16 }).setAAD(head).setAuthTag(tag)
  try {
    return Buffer.concat([decipher.update(payload), decipher.final()])
  } catch {
    return undefined
  }
}

const objectKey = (master: Buffer, nonce: Buffer, name: string): Buffer =>
  Buffer.from(hkdfSync('sha256', master, nonce, `backup object ${name}`.slice(0, 1000), 32))

/** A key is for one object, so the number of its chunk is a nonce that never repeats. */
function ivOf(index: number): Buffer {
  const iv = Buffer.alloc(12)
  iv.writeBigUInt64BE(BigInt(index), 4)
  return iv
}

const macOf = (key: Buffer, index: number, head: Buffer, payload: Buffer): Buffer =>
  createHmac('sha256', key).update(ivOf(index)).update(head).update(payload).digest()

/** Copies what arrives into chunks, in buffers of `spare` where it has some; all but the last are full. */
async function* inChunks(source: Bytes, spare: Buffer[]): AsyncGenerator<Buffer> {
  let chunk: Buffer | undefined
  let bytes = 0
  for await (const piece of source) {
    for (let at = 0; at < piece.length; ) {
      chunk ??= spare.pop() ?? Buffer.allocUnsafeSlow(CHUNK)
      const taken = piece.copy(chunk, bytes, at)
      at += taken
      bytes += taken
      if (bytes < CHUNK) continue
      yield chunk
      chunk = undefined
      bytes = 0
    }
  }
  if (chunk) yield chunk.subarray(0, bytes)
}

/** Takes exact counts of bytes from a stream. */
class Reader {
  readonly #source: AsyncIterator<Buffer> | Iterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(source: Bytes) {
    this.#source = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]()
  }

  /** Frees the source of an object that was not read to its end. */
  async close(): Promise<void> {
    await this.#source.return?.()
  }

  /** Undefined at the end, or where less is left. */
  async take(bytes: number): Promise<Buffer | undefined> {
    const parts = [this.#rest]
    let have = this.#rest.length
    while (have < bytes) {
      const { done, value } = await this.#source.next()
      if (done) return undefined
      parts.push(value)
      have += value.length
    }
    const all = parts.length === 1 ? this.#rest : Buffer.concat(parts)
    this.#rest = all.subarray(bytes)
    return all.subarray(0, bytes)
  }
}
