import type { BackupTarget } from '../target/target.ts'
import { type Manifest, parseManifest } from './manifest.ts'
import { type BackupDetails, objectOf } from './records.ts'
import { SealError, type Seals } from './seal.ts'
import { isArchive, Unpacker } from './unpack.ts'

/** A manifest has some hundred bytes for each file of the database. */
const MOST_MANIFEST_BYTES = 512 * 2 ** 20
const MOST_SECRET_BYTES = 10_000

/** One backup in its target; everything read from it is opened by its seal. */
export class StoredBackup {
  readonly details: BackupDetails
  readonly #target: BackupTarget
  readonly #seals: Seals

  constructor(details: BackupDetails, target: BackupTarget, seals: Seals) {
    this.details = details
    this.#target = target
    this.#seals = seals
  }

  async manifest(): Promise<Manifest> {
    const text = await this.#seals.openText(this.#name('manifest'), await this.#stored('manifest'), MOST_MANIFEST_BYTES)
    return parseManifest(text)
  }

  /** Undefined in a backup without passphrase. */
  async rootSecret(): Promise<string | undefined> {
    if (!this.details.objects.includes('secret')) return undefined
    return this.#seals.openText(this.#name('secret'), await this.#stored('secret'), MOST_SECRET_BYTES)
  }

  /** A small object as text. */
  async text(object: string, mostBytes: number): Promise<string> {
    return this.#seals.openText(this.#name(object), await this.#stored(object), mostBytes)
  }

  /** Opens every seal and keeps nothing. */
  async checkSeals(): Promise<void> {
    for (const object of this.details.objects) await this.#seals.check(this.#name(object), await this.#stored(object))
  }

  /** Reads everything once and writes nothing: every seal, every name, every size and checksum. */
  async check(onBytes: (bytes: number) => void = () => {}): Promise<Manifest> {
    const manifest = await this.manifest()
    await this.#each(new Unpacker(manifest), onBytes)
    for (const object of this.details.objects) {
      if (!isArchive(object)) await this.#seals.check(this.#name(object), await this.#stored(object))
    }
    return manifest
  }

  async unpack(manifest: Manifest, folder: string, onBytes: (bytes: number) => void = () => {}): Promise<void> {
    await this.#each(new Unpacker(manifest, folder), onBytes)
  }

  async *open(object: string): AsyncGenerator<Buffer> {
    yield* this.#seals.open(this.#name(object), await this.#stored(object))
  }

  async #each(unpacker: Unpacker, onBytes: (bytes: number) => void): Promise<void> {
    for (const object of this.details.objects.filter(isArchive)) {
      await unpacker.unpack(object, counted(this.open(object), onBytes))
    }
    unpacker.requireWhole()
  }

  #name(object: string): string {
    return objectOf(this.details.id, object)
  }

  async #stored(object: string): Promise<AsyncIterable<Buffer>> {
    const stored = await this.#target.get(this.#name(object))
    if (!stored) throw new SealError(`${this.#name(object)} is missing in the backup target`)
    return stored
  }
}

async function* counted(source: AsyncIterable<Buffer>, onBytes: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const part of source) {
    onBytes(part.length)
    yield part
  }
}
