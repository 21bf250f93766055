import type pg from 'pg'
import { secretBoxOf } from '../../../app/secrets.ts'
import type { Config } from '../../../config/config.ts'
import type { SecretBox } from '../../../core/secret-box.ts'
import { rootSecretFile } from '../../../db/setup/embedded/secret-file.ts'
import { loadRootSecret } from '../../../features/auth/keys.ts'
import { createStore } from '../../../features/storage/storage.ts'
import { Progress } from '../../files/progress.ts'
import { exclusively } from '../exclusive.ts'
import type { Note, Plan } from '../plan.ts'
import { bringObjects, type SourceObject } from './bring-files.ts'
import type { PlaceOfFiles } from './file-source.ts'
import { withSavepoint } from './savepoint.ts'

export type Target = { client: pg.Client; box: SecretBox; config: Config; url: string }

export const withTarget = <T>(config: Config, work: (target: Target) => Promise<T>): Promise<T> =>
  exclusively(
    config,
    async (pool) => {
      const file = config.database.url === '' ? rootSecretFile(config.data_dir) : undefined
      return secretBoxOf(config.auth, await loadRootSecret(pool, config.auth.jwt_secret, file))
    },
    (client, box, url) => work({ client, box, config, url }),
  )

/** Of the rows of a plan, by table. */
export const rowProgress = ({ tables }: Pick<Plan, 'tables'>): Progress =>
  new Progress(
    tables.reduce((sum, { rows }) => sum + rows, 0),
    tables.length,
    'tables',
  )

export async function bringFilesOf(
  { client, config }: Target,
  source: string,
  files: PlaceOfFiles,
  objects: AsyncIterable<readonly SourceObject[]>,
  { files: planned, notes }: Pick<Plan, 'files' | 'notes'>,
): Promise<number> {
  const progress = new Progress(planned.bytes, planned.count)
  const store = createStore(config.storage)
  store.start?.()
  const heard = (bytes: number): void => {
    progress.add(bytes)
    progress.fileDone()
  }
  try {
    return await bringObjects(
      { client, store, files, source, maxSize: config.storage.max_file_size, notes, heard },
      objects,
    )
  } finally {
    await store.stop()
    progress.end()
  }
}

export const hasMark = async (client: pg.Client, source: string, kind: string, key: string): Promise<boolean> =>
  (await client.query('select from svc.adopted where source = $1 and kind = $2 and key = $3', [source, kind, key]))
    .rowCount !== 0

export const markAs = (client: pg.Client, source: string, kind: string, key: string): Promise<unknown> =>
  client.query('insert into svc.adopted (source, kind, key) values ($1, $2, $3) on conflict do nothing', [
    source,
    kind,
    key,
  ])

/** Extensions that a superuser may make for an app: trusted ones, and these. */
const HARMLESS = [
  'vector',
  'postgis',
  'moddatetime',
  'autoinc',
  'insert_username',
  'refint',
  'earthdistance',
  'uuid-ossp',
  'pgcrypto',
]

/** Within a transaction. What PostgreSQL does not have here is listed. */
export async function makeExtensions(
  client: pg.Client,
  extensions: readonly { name: string; schema: string }[],
  notes: Note[],
): Promise<void> {
  const { rows } = await client.query<{ name: string; there: string; harmless: string }>(
    `select a.name, (a.installed_version is not null)::text as there, (a.name = any ($1) or exists (
       select from pg_catalog.pg_available_extension_versions v where v.name = a.name and v.version = a.default_version and v.trusted))::text as harmless
     from pg_catalog.pg_available_extensions a`,
    [HARMLESS],
  )
  const known = new Map(rows.map((row) => [row.name, row]))
  for (const { name, schema } of extensions) {
    const found = known.get(name)
    const skip = (why: string): void => {
      notes.push({ level: 'skipped', what: `extension ${name}`, why })
    }
    if (found?.there === 'true') continue
    if (!found) skip(`its files are missing here: svc extensions add ${name}, then adopt into an empty database`)
    else if (found.harmless !== 'true') skip('only a superuser should add it: add it by hand, then adopt')
    else {
      const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`
      const failed = await withSavepoint(client, async () => {
        await client.query(`create schema if not exists ${quoted(schema)}`)
        await client.query(`create extension ${quoted(name)} with schema ${quoted(schema)}`)
        if (schema !== 'public') await client.query(`grant usage on schema ${quoted(schema)} to public`)
      })
      if (failed) skip(failed.message)
    }
  }
}
