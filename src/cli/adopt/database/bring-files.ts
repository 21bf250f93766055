import type { Readable } from 'node:stream'
import type pg from 'pg'
import { inTransaction } from '../../../db/setup/migrate.ts'
import type { Store } from '../../../features/storage/blobs/store.ts'
import { storeBytes } from '../../../features/storage/blobs/store-bytes.ts'
import { isObjectName } from '../../../features/storage/objects/names.ts'
import { contentTypeOf } from '../../../http/files/content-type.ts'
import type { Note } from '../plan.ts'
import type { PlaceOfFiles } from './file-source.ts'

/** An object as its database knows it. */
export type SourceObject = {
  /** `<bucket>/<name>` there. */
  key: string
  /** Where the bytes are. */
  folder: string
  bucket: string
  name: string
  id: string | null
  version: string | null
  owner: string | null
  contentType: string | null
  metadata: string | null
  createdAt: string | null
  updatedAt: string | null
}

const MAX_NOTES = 50
const MAX_TYPE = 200

type Bringing = {
  client: pg.Client
  store: Store
  files: PlaceOfFiles
  source: string
  maxSize: number
  notes: Note[]
  heard: (bytes: number) => void
}

/** Adds the files that no run has added before; resolves to their number. Bytes are durable before their row. */
export async function bringObjects(to: Bringing, objects: AsyncIterable<readonly SourceObject[]>): Promise<number> {
  let [added, unnamed] = [0, 0]
  const skip = (what: string, why: string): void => {
    if (++unnamed <= MAX_NOTES) to.notes.push({ level: 'skipped', what, why })
  }
  for await (const batch of objects) {
    const { rows } = await to.client.query<{ key: string }>(
      `select key from svc.adopted where source = $1 and kind = 'file' and key = any ($2)`,
      [to.source, batch.map(({ key }) => key)],
    )
    const known = new Set(rows.map(({ key }) => key))
    for (const object of batch) {
      if (known.has(object.key)) continue
      if (!isObjectName(object.name)) {
        skip(object.key, 'is no name for a file here')
        continue
      }
      const found = await to.files.find(object.folder, object.name, object.version)
      if (found === undefined) skip(object.key, 'its bytes are not in the place of --files')
      else if (typeof found === 'string') skip(object.key, found)
      else if (found.size > to.maxSize) skip(object.key, 'is larger than storage.max_file_size')
      else if (await bringObject(to, object, await found.open())) {
        added++
        to.heard(found.size)
      } else skip(object.key, 'there is a file of this name here already, which stays')
    }
  }
  if (unnamed > MAX_NOTES)
    to.notes.push({ level: 'skipped', what: `${unnamed - MAX_NOTES} further files`, why: 'for the same reasons' })
  return added
}

async function bringObject(
  { client, store, source }: Bringing,
  object: SourceObject,
  bytes: Readable,
): Promise<boolean> {
  const { id, size, sha256 } = await storeBytes(store, bytes).finally(() => bytes.destroy())
  try {
    const isAdded = await inTransaction(client, async () => {
      await client.query('insert into svc.blobs (id, size, sha256) values ($1, $2, $3)', [id, size, sha256])
      const type =
        object.contentType !== null && object.contentType.length <= MAX_TYPE
          ? object.contentType
          : contentTypeOf(object.name)
      const { rowCount } = await client.query(
        `insert into svc.objects (id, bucket, name, content_type, blob_id, size, sha256, owner, is_operators, metadata, created_at, updated_at)
         select coalesce($1::uuid, gen_random_uuid()), $2, $3, $4, $5, $6, $7, u.id, u.id is null, $9::jsonb,
           coalesce($10::timestamptz, now()), coalesce($11::timestamptz, now())
         from (select 1) one left join svc.users u on u.id = $8::uuid on conflict do nothing`,
        [
          object.id,
          object.bucket,
          object.name,
          type,
          id,
          size,
          sha256,
          object.owner,
          metadataOf(object),
          object.createdAt,
          object.updatedAt,
        ],
      )
      if (rowCount === 0) await client.query('delete from svc.blobs where id = $1', [id])
      await client.query(`insert into svc.adopted (source, kind, key) values ($1, 'file', $2)`, [source, object.key])
      return rowCount !== 0
    })
    if (!isAdded) await store.remove(id)
    return isAdded
  } catch (error) {
    await store.remove(id)
    throw error
  }
}

const MAX_METADATA = 16_384

/** What is too large for a file's metadata stays behind; its bytes come. */
const metadataOf = ({ metadata }: SourceObject): string =>
  metadata !== null && Buffer.byteLength(metadata) <= MAX_METADATA ? metadata : '{}'
