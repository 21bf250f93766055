import { createHash } from 'node:crypto'
import type pg from 'pg'
import { inParallel } from '../../../core/limits.ts'
import { isUuid } from '../../../core/uuid.ts'
import { type BackupTarget, requireName } from '../target/target.ts'
import type { Seals } from './seal.ts'

/** The bytes of stored files: `read` resolves to undefined where they are gone. */
export type BlobSource = {
  read(id: string, size: number): Promise<AsyncIterable<Buffer> | undefined>
  /** They lie in S3, so a backup has a list of them unless copies are wanted. */
  isRemote: boolean
}

export type BlobRow = { id: string; size: number; sha256: string }

const AT_ONCE = 4
export const FILES = 'files'
/** Of backups that do not name the folder of their files. */
export const FIRST_FOLDER = 'blobs'

/**
 * Where the files of a server lie, by the key that seals them: so a new passphrase copies them anew, and one server never
 * removes what another one needs. The first is the one to write to.
 */
export async function fileFolders(seals: Seals, server: string): Promise<string[]> {
  return (await seals.tags(server)).map((tag) => `${FILES}/${tag}`)
}

/** The folder and the id in the name of an object; undefined for what is none of a blob. */
export function blobOf(name: string): { folder: string; id: string } | undefined {
  const [, folder = '', id = ''] = /^(.+)\/[0-9a-f]{2}\/([^/]+)$/.exec(name) ?? []
  return isUuid(id) ? { folder, id } : undefined
}

/** Shards of the ids, which are random: the first byte. */
export const SHARDS: readonly string[] = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'))

/** Blobs are immutable and have a UUID, so each is copied to a folder once, for all backups that are sealed with the same key. */
export class BlobCopies {
  readonly #target: BackupTarget
  readonly #seals: Seals
  readonly folder: string

  constructor(target: BackupTarget, seals: Seals, folder = FIRST_FOLDER) {
    this.#target = target
    this.#seals = seals
    this.folder = requireName(folder)
  }

  static async ofServer(target: BackupTarget, seals: Seals, server: string): Promise<BlobCopies> {
    return new BlobCopies(target, seals, (await fileFolders(seals, server))[0])
  }

  /** Ids of a shard that the target has. */
  async present(shard: string): Promise<Map<string, { bytes: number; modifiedAt: number }>> {
    const found = new Map<string, { bytes: number; modifiedAt: number }>()
    for await (const { name, bytes, modifiedAt } of this.#target.list(`${this.folder}/${shard}/`)) {
      const id = name.slice(`${this.folder}/${shard}/`.length)
      if (isUuid(id)) found.set(id, { bytes, modifiedAt })
    }
    return found
  }

  /** False where the bytes are gone: their row was deleted meanwhile. */
  async copy({ id, size, sha256 }: BlobRow, source: BlobSource, signal?: AbortSignal): Promise<boolean> {
    const bytes = await source.read(id, size)
    if (!bytes) return false
    const name = this.#name(id)
    await this.#target.put(name, this.#seals.seal(name, sameBytes(bytes, { id, size, sha256 })), {
      signal,
      expected: size,
    })
    return true
  }

  /** Undefined where the target has none. Throws at its end where the bytes are not those of the row. */
  async open(row: BlobRow): Promise<AsyncIterable<Buffer> | undefined> {
    const name = this.#name(row.id)
    const stored = await this.#target.get(name)
    return stored && sameBytes(this.#seals.open(name, stored), row)
  }

  #name(id: string): string {
    if (!isUuid(id)) throw new TypeError('not the id of a blob')
    return `${this.folder}/${id.slice(0, 2)}/${id}`
  }
}

async function* sameBytes(bytes: AsyncIterable<Buffer>, { id, size, sha256 }: BlobRow): AsyncGenerator<Buffer> {
  const hash = createHash('sha256')
  let count = 0
  for await (const part of bytes) {
    hash.update(part)
    count += part.length
    if (count > size) break
    yield part
  }
  if (count !== size || hash.digest('hex') !== sha256)
    throw new Error(`the bytes of blob ${id} are not those of its row`)
}

export const blobsOfShard = async (client: pg.Client, shard: string): Promise<BlobRow[]> => {
  const rest = '-0000-0000-0000-000000000000'
  const { rows } = await client.query<{ id: string; size: string; sha256: string }>(
    `select b.id::text as id, b.size::text as size, b.sha256 from svc.blobs b
     where b.id >= $1::uuid and b.id <= $2::uuid`,
    [`${shard}000000${rest}`, `${shard}ffffff-ffff-ffff-ffff-ffffffffffff`],
  )
  return rows.map((row) => ({ ...row, size: Number(row.size) }))
}

/** Rows that were committed since, with a margin for transactions that took long. */
export const recentBlobs = async (client: pg.Client, since: Date): Promise<BlobRow[]> => {
  const { rows } = await client.query<{ id: string; size: string; sha256: string }>(
    `select id::text as id, size::text as size, sha256 from svc.blobs where created_at > $1::timestamptz - interval '10 minutes'`,
    [since.toISOString()],
  )
  return rows.map((row) => ({ ...row, size: Number(row.size) }))
}

/** Copies the blobs of all rows that the target does not have; passes on each row that it then has. */
export async function copyAllBlobs(options: {
  client: pg.Client
  copies: BlobCopies
  source: BlobSource
  onBlob: (row: BlobRow, wasCopied: boolean) => void
  signal?: AbortSignal | undefined
}): Promise<void> {
  const { client, copies, source, onBlob, signal } = options
  for (const shard of SHARDS) {
    signal?.throwIfAborted()
    const rows = await blobsOfShard(client, shard)
    if (rows.length === 0) continue
    const present = await copies.present(shard)
    await inParallel(rows, AT_ONCE, async (row) => {
      signal?.throwIfAborted()
      const isThere = present.has(row.id)
      if (isThere || (await copies.copy(row, source, signal))) onBlob(row, !isThere)
    })
  }
}
