import { existsSync, lstatSync, readdirSync, realpathSync } from 'node:fs'
import { join, sep } from 'node:path'
import type pg from 'pg'
import { inTransaction } from '../../../db/setup/migrate.ts'
import type { Store } from '../../../features/storage/blobs/store.ts'
import { storeBytes } from '../../../features/storage/blobs/store-bytes.ts'
import { isObjectName } from '../../../features/storage/objects/names.ts'
import { contentTypeOf } from '../../../http/files/content-type.ts'
import { openRegular } from '../database/file-source.ts'
import type { Note } from '../plan.ts'

export type SourceFile = { bucket: string; name: string; path: string; size: number }

const MAX_NOTES = 50

/** Regular files below `storage`, without what PocketBase makes of them (thumbs, attributes). */
export function listSourceFiles(
  folder: string,
  buckets: ReadonlyMap<string, string>,
  maxSize: number,
  notes: Note[],
): SourceFile[] {
  const root = join(folder, 'storage')
  if (!existsSync(root)) return []
  const home = realpathSync(folder)
  const found: SourceFile[] = []
  let unnamed = 0
  const skip = (what: string, why: string): void => {
    if (++unnamed <= MAX_NOTES) notes.push({ level: 'skipped', what, why })
  }
  for (const [id, bucket] of buckets) {
    const base = join(root, id)
    if (!isFolder(base)) continue
    if (!realpathSync(base).startsWith(home + sep)) continue
    for (const record of readdirSync(base)) {
      if (!isFolder(join(base, record))) {
        skip(`${id}/${record}`, 'is a link or no folder')
        continue
      }
      const all = readdirSync(join(base, record))
      for (const file of all) {
        const path = join(base, record, file)
        const stat = lstatSync(path)
        // What PocketBase makes of files; one of a person may be called so too.
        const isThumbs = file.startsWith('thumbs_') && stat.isDirectory()
        const isAttributes = file.endsWith('.attrs') && all.includes(file.slice(0, -'.attrs'.length))
        if (isThumbs || isAttributes) continue
        const name = `${record}/${file}`
        if (!stat.isFile()) skip(`${bucket}/${name}`, 'is a link or no file')
        else if (!isObjectName(name)) skip(`${bucket}/${name}`, 'is no name for a file here')
        else if (stat.size > maxSize) skip(`${bucket}/${name}`, 'is larger than storage.max_file_size')
        else found.push({ bucket, name, path, size: stat.size })
      }
    }
  }
  if (unnamed > MAX_NOTES)
    notes.push({ level: 'skipped', what: `${unnamed - MAX_NOTES} further files`, why: 'for the same reasons' })
  return found
}

const isFolder = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/** Adds the files that no run has added before; resolves to their number. Bytes are durable before their row. */
export async function bringFiles(
  client: pg.Client,
  store: Store,
  files: readonly SourceFile[],
  heard: (bytes: number) => void,
): Promise<number> {
  let added = 0
  for (const file of files) {
    const key = `${file.bucket}/${file.name}`
    const { rowCount } = await client.query(
      `select from svc.adopted where source = 'pocketbase' and kind = 'file' and key = $1`,
      [key],
    )
    if (rowCount === 0) {
      await bringFile(client, store, file, key)
      added++
    }
    heard(file.size)
  }
  return added
}

async function bringFile(client: pg.Client, store: Store, file: SourceFile, key: string): Promise<void> {
  const bytes = await openRegular(file.path)
  const { id, size, sha256 } = await storeBytes(store, bytes).finally(() => bytes.destroy())
  try {
    await inTransaction(client, async () => {
      await client.query('insert into svc.blobs (id, size, sha256) values ($1, $2, $3)', [id, size, sha256])
      const { rowCount } = await client.query(
        `insert into svc.objects (bucket, name, content_type, blob_id, size, sha256, is_operators)
         values ($1, $2, $3, $4, $5, $6, true) on conflict (bucket, name) do nothing`,
        [file.bucket, file.name, contentTypeOf(file.name), id, size, sha256],
      )
      if (rowCount === 0) throw new Error(`${key} is there already`)
      await client.query(`insert into svc.adopted (source, kind, key) values ('pocketbase', 'file', $1)`, [key])
    })
  } catch (error) {
    await store.remove(id)
    throw error
  }
}
