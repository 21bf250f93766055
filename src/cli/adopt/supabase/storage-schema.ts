import type pg from 'pg'
import { bucketName } from '../../../features/storage/objects/names.ts'
import type { SourcePolicy } from '../database/catalogue.ts'
import { policiesQuery, type SourceTrigger, triggersQuery } from '../database/catalogue.ts'
import { policySql, type SchemaStep } from '../database/ddl.ts'
import { readRows } from '../database/source.ts'
import type { Note, PlannedPolicy } from '../plan.ts'

export type SourceBucket = {
  id: string
  /** Its name here. */
  name: string
  isPublic: boolean
  maxSize: string | null
  types: string[] | null
}

type BucketRow = { id: string; public: boolean; limit: string | null; types: string[] | null; type: string | null }

/** Buckets of files; those of analytics and vectors have no equal. */
export async function readBuckets(from: pg.Client, notes: Note[]): Promise<SourceBucket[]> {
  const [has] = await readRows<{ there: boolean }>(from, `select to_regclass('storage.buckets') is not null as there`)
  if (!has?.there) return []
  const rows = await readRows<BucketRow>(
    from,
    `select j ->> 'id' as id, coalesce((j ->> 'public')::boolean, false) as public, j ->> 'file_size_limit' as limit, j ->> 'type' as type,
       case when jsonb_typeof(j -> 'allowed_mime_types') = 'array' then j -> 'allowed_mime_types' end as types
     from (select to_jsonb(b) as j from storage.buckets b) b order by 1`,
  )
  const taken = new Set<string>()
  const buckets: SourceBucket[] = []
  for (const { id, public: isPublic, limit, types, type } of rows) {
    if (type !== null && type !== 'STANDARD') {
      notes.push({ level: 'skipped', what: `bucket ${id}`, why: `buckets of the type ${type} have no equal here` })
      continue
    }
    const name = nameFor(id, taken)
    taken.add(name)
    if (name !== id) notes.push({ level: 'changed', what: `bucket ${id}`, why: `is called ${name} here` })
    const known = types?.filter((one) => /^[\w.+-]+\/([\w.+-]+|\*)$/.test(one)) ?? null
    if (known && types && known.length < types.length)
      notes.push({ level: 'changed', what: `bucket ${id}`, why: 'types of files that are none were left out' })
    if (isPublic)
      notes.push({
        level: 'warning',
        what: `bucket ${id}`,
        why: 'is public: its files are open to everybody, and so are their names in lists, for which Supabase needs a policy',
      })
    buckets.push({ id, name, isPublic, maxSize: limit, types: known && known.length > 0 ? known : null })
  }
  return buckets
}

function nameFor(id: string, taken: ReadonlySet<string>): string {
  const base = isBucketName(id)
    ? id
    : id
        .toLowerCase()
        .replaceAll(/[^a-z0-9_-]+/g, '-')
        .replaceAll(/^[-_]+|-+$/g, '')
        .slice(0, 58) || 'bucket'
  for (let count = 1; ; count++) {
    const name = count === 1 ? base : `${base}-${count}`
    if (isBucketName(name) && !taken.has(name)) return name
  }
}

function isBucketName(text: string): boolean {
  try {
    return bucketName(text) === text
  } catch {
    return false
  }
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/**
 * An expression over a row of storage.objects, over one of svc.objects: the columns that it knows, under the name by which it
 * knows the table. So the text is Supabase's own.
 */
function overObjects(expression: string, buckets: readonly SourceBucket[]): string {
  const renamed = buckets.filter(({ id, name }) => id !== name)
  const bucket =
    renamed.length === 0
      ? 'objects.bucket'
      : `case objects.bucket ${renamed.map(({ id, name }) => `when ${literal(name)} then ${literal(id)}`).join(' ')} else objects.bucket end`
  return `(select (${expression}) from (${asStorageObject('objects', bucket)}) as objects)`
}

const asStorageObject = (
  o: string,
  bucket: string,
): string => `select ${o}.id, (${bucket})::text as bucket_id, ${o}.name::text as name, ${o}.owner,
  ${o}.owner::text as owner_id, ${o}.created_at, ${o}.updated_at, ${o}.updated_at as last_accessed_at,
  pg_catalog.jsonb_build_object('size', ${o}.size, 'contentLength', ${o}.size, 'mimetype', ${o}.content_type) as metadata, ${o}.metadata as user_metadata,
  pg_catalog.string_to_array(${o}.name, '/') as path_tokens, ${o}.id::text as version, null::timestamptz as archived_at,
  false as is_delete_marker, true as is_versioned, pg_catalog.cardinality(pg_catalog.string_to_array(${o}.name, '/')) as level`

/** Policies here carry this before the name that they had. */
export const POLICY_PREFIX = 'supabase: '
const MAX_NAME = 63

const nameOfPolicy = (text: string): string => {
  let name = `${POLICY_PREFIX}${text}`
  while (Buffer.byteLength(name) > MAX_NAME) name = [...name].slice(0, -1).join('')
  return name
}

export async function storagePolicies(
  from: pg.Client,
  buckets: readonly SourceBucket[],
  roles: ReadonlySet<string>,
  notes: Note[],
): Promise<{ steps: SchemaStep[]; planned: PlannedPolicy[] }> {
  const of = `n.nspname = 'storage' and c.relname = 'objects'`
  const policies = await readRows<SourcePolicy>(from, policiesQuery(of))
  const steps: SchemaStep[] = []
  const planned: PlannedPolicy[] = []
  const names = new Set<string>()
  const make = (policy: SourcePolicy, from: string): void => {
    const as = (expression: string): string => overObjects(expression, buckets)
    let name = nameOfPolicy(policy.name)
    for (let count = 2; names.has(name); count++) name = `${name.slice(0, MAX_NAME - 6)} ${count}`
    names.add(name)
    const sql = policySql(policy, 'svc.objects', name, roles, notes, as)
    if (sql === undefined) return
    steps.push({ by: 'server', phase: 'after', what: `policy ${policy.name} of storage.objects`, sql, level: 'closed' })
    planned.push({
      table: 'svc.objects',
      name,
      command: policy.command,
      using: policy.using,
      check: policy.check,
      from,
    })
  }
  for (const policy of policies) make(policy, `policy ${policy.name} of storage.objects`)
  for (const { id, isPublic } of buckets)
    if (isPublic)
      make(
        {
          schema: 'storage',
          table: 'objects',
          name: `public ${id}`,
          isPermissive: true,
          command: 'select',
          roles: ['public'],
          using: `bucket_id = ${literal(id)}`,
          check: null,
        },
        `the bucket ${id} is public`,
      )
  const triggers = await readRows<SourceTrigger>(from, triggersQuery(of))
  for (const { name, functionSchema } of triggers)
    if (functionSchema !== 'storage')
      notes.push({
        level: 'skipped',
        what: `trigger ${name} of storage.objects`,
        why: 'files are rows of svc.objects here: changes of them are in the change log and go to webhooks',
      })
  return { steps, planned }
}

/** For a copy: functions that policies call, and the two tables as views, where views can have the rights of who reads them. */
export const STORAGE_FUNCTIONS: readonly string[] = [
  `create or replace function storage.foldername(name text) returns text[] language sql immutable parallel safe as $f$
     select (pg_catalog.string_to_array(name, '/'))[1:pg_catalog.array_length(pg_catalog.string_to_array(name, '/'), 1) - 1] $f$`,
  `create or replace function storage.filename(name text) returns text language sql immutable parallel safe as $f$
     select (pg_catalog.string_to_array(name, '/'))[pg_catalog.array_length(pg_catalog.string_to_array(name, '/'), 1)] $f$`,
  `create or replace function storage.extension(name text) returns text language sql immutable parallel safe as $f$
     select pg_catalog.reverse(pg_catalog.split_part(pg_catalog.reverse((pg_catalog.string_to_array(name, '/'))[pg_catalog.array_length(pg_catalog.string_to_array(name, '/'), 1)]), '.', 1)) $f$`,
]

export const storageViews = (buckets: readonly SourceBucket[]): string[] => {
  const renamed = buckets.filter(({ id, name }) => id !== name)
  const idOf = (column: string): string =>
    renamed.length === 0
      ? column
      : `case ${column} ${renamed.map(({ id, name }) => `when ${literal(name)} then ${literal(id)}`).join(' ')} else ${column} end`
  return [
    `create or replace view storage.objects with (security_invoker = true) as ${asStorageObject('o', idOf('o.bucket'))} from svc.objects o`,
    `create or replace view storage.buckets with (security_invoker = true) as select (${idOf('b.name')})::text as id, (${idOf('b.name')})::text as name, null::uuid as owner,
       b.created_at, b.updated_at, false as public, false as avif_autodetection, b.max_size as file_size_limit, b.allowed_types as allowed_mime_types, null::text as owner_id
     from svc.storage_buckets b`,
  ]
}
