import { mkdir, open, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type pg from 'pg'
import { inParallel } from '../../../core/limits.ts'
import { isUuid } from '../../../core/uuid.ts'
import { type BlobCopies, blobsOfShard, SHARDS } from '../stored/files.ts'
import { syncFolder } from '../target/disk-target.ts'

const AT_ONCE = 4

export type RestoredBlobs = { count: number; bytes: number; missing: number }

/** Brings the bytes of all rows back into a folder, as the local store keeps them. */
export async function restoreBlobs(client: pg.Client, copies: BlobCopies, storage: string): Promise<RestoredBlobs> {
  const restored = { count: 0, bytes: 0, missing: 0 }
  for (const shard of SHARDS) {
    const rows = await blobsOfShard(client, shard)
    if (rows.length === 0) continue
    const folder = join(storage, 'blobs', shard)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await inParallel(rows, AT_ONCE, async (row) => {
      const bytes = await copies.open(row)
      if (!bytes) {
        restored.missing++
        return
      }
      if (!isUuid(row.id)) throw new TypeError('not the id of a blob')
      const file = join(folder, row.id)
      const handle = await open(`${file}.new`, 'wx', 0o600)
      try {
        for await (const part of bytes) await handle.appendFile(part)
        await handle.sync()
      } finally {
        await handle.close()
      }
      await rename(`${file}.new`, file)
      restored.count++
      restored.bytes += row.size
    })
    await syncFolder(folder)
    await syncFolder(dirname(folder))
  }
  return restored
}

/** Blobs of rows that nothing is about to remove, and that the target has not. */
export async function missingBlobs(client: pg.Client, copies: BlobCopies): Promise<number> {
  const { rows: leaving } = await client.query<{ id: string }>(
    `select jsonb_array_elements_text(payload->'ids') as id from svc.queue where kind = 'blobs.remove'`,
  )
  const isLeaving = new Set(leaving.map(({ id }) => id))
  let missing = 0
  for (const shard of SHARDS) {
    const rows = (await blobsOfShard(client, shard)).filter(({ id }) => !isLeaving.has(id))
    if (rows.length === 0) continue
    const present = await copies.present(shard)
    missing += rows.filter(({ id }) => !present.has(id)).length
  }
  return missing
}
