import type pg from 'pg'
import type { SourceObject } from '../database/bring-files.ts'
import { readRows } from '../database/source.ts'
import type { Note } from '../plan.ts'
import type { SourceBucket } from './storage-schema.ts'

const BATCH = 500
/** Versions that were replaced or deleted stay as rows in newer layouts; folders may have one too. */
const CURRENT = `j ->> 'archived_at' is null and coalesce((j ->> 'is_delete_marker')::boolean, false) = false and j ->> 'name' is not null`
const OBJECTS = `(select to_jsonb(o) as j from storage.objects o) x`

const hasObjects = async (from: pg.Client): Promise<boolean> =>
  (await readRows<{ there: boolean }>(from, `select to_regclass('storage.objects') is not null as there`))[0]?.there ===
  true

export async function countObjects(
  from: pg.Client,
  buckets: readonly SourceBucket[],
  notes: Note[],
): Promise<{ count: number; bytes: number }> {
  if (!(await hasObjects(from))) return { count: 0, bytes: 0 }
  const [row] = await readRows<{ count: number; bytes: number; old: number }>(
    from,
    `select count(*) filter (where ${CURRENT}) as count, count(*) filter (where not (${CURRENT})) as old,
       coalesce(sum(case when ${CURRENT} and j -> 'metadata' ->> 'size' ~ '^[0-9]{1,15}$' then (j -> 'metadata' ->> 'size')::bigint end), 0) as bytes
     from ${OBJECTS} where j ->> 'bucket_id' = any ($1)`,
    [buckets.map(({ id }) => id)],
  )
  if (row && row.old > 0)
    notes.push({ level: 'skipped', what: `${row.old} old versions of files`, why: 'the newest of each comes along' })
  return { count: row?.count ?? 0, bytes: row?.bytes ?? 0 }
}

export async function* currentObjects(
  from: pg.Client,
  buckets: readonly SourceBucket[],
): AsyncGenerator<SourceObject[]> {
  if (!(await hasObjects(from))) return
  const nameOf = new Map(buckets.map(({ id, name }) => [id, name]))
  await from.query(
    `declare objects_of_storage no scroll cursor for select json_build_object('folder', j ->> 'bucket_id', 'name', j ->> 'name', 'id', j ->> 'id',
       'version', j ->> 'version', 'owner', case when coalesce(j ->> 'owner_id', j ->> 'owner') ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
         then coalesce(j ->> 'owner_id', j ->> 'owner') end,
       'contentType', j -> 'metadata' ->> 'mimetype', 'metadata', case when jsonb_typeof(j -> 'user_metadata') = 'object' then (j -> 'user_metadata')::text end,
       'createdAt', j ->> 'created_at', 'updatedAt', j ->> 'updated_at')::text as one from ${OBJECTS} where ${CURRENT}`,
  )
  for (;;) {
    const { rows } = await from.query<{ one: string }>(`fetch ${BATCH} from objects_of_storage`)
    if (rows.length === 0) break
    yield rows.flatMap(({ one }) => {
      const object = JSON.parse(one) as Omit<SourceObject, 'key' | 'bucket'>
      const bucket = nameOf.get(object.folder)
      return bucket === undefined ? [] : [{ ...object, bucket, key: `${object.folder}/${object.name}` }]
    })
  }
  await from.query('close objects_of_storage')
}
