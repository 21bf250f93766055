import { resolve } from 'node:path'
import type { Config } from '../../../config/config.ts'
import { type Context, UsageError } from '../../command/command.ts'
import { type Plan, printPlan } from '../plan.ts'
import { readPeople } from './accounts.ts'
import { apply, type Brought } from './apply.ts'
import { type Collection, readCollections } from './collections.ts'
import { listSourceFiles, type SourceFile } from './files.ts'
import { writeMigrations } from './migrations.ts'
import { targetSchemaOf } from './schema.ts'
import { openSource, type Source, sqliteName } from './source.ts'

/** `svc adopt pocketbase <pb_data>`: prints the plan; `--apply` does it, `--out` writes it as migrations. */
export async function adoptPocketbase(context: Context): Promise<number> {
  const [folder = ''] = context.args
  const isApplied = context.flag('apply') === true
  const out = context.flag('out')
  const profile = context.flag('profile')
  if (isApplied && out !== undefined) throw new UsageError('--out writes migrations instead of --apply: choose one')
  const { config } = context.config()
  const source = await openSource(folder)
  try {
    const brought = planOf(source, folder, config, {
      isApplied,
      profile: typeof profile === 'string' ? profile : undefined,
      withRelationViews: context.flag('relation-views') === true,
    })
    if (isApplied) brought.plan.done = await apply(config, source, brought)
    if (context.json) context.print(JSON.stringify(brought.plan))
    else printPlan(brought.plan, context.print)
    if (typeof out === 'string') {
      const written = await writeMigrations(out, brought.schema)
      if (!context.json) for (const name of written) context.print(`wrote ${name}`)
    }
    return 0
  } finally {
    source.close()
  }
}

function planOf(
  source: Source,
  folder: string,
  config: Config,
  options: { isApplied: boolean; profile: string | undefined; withRelationViews: boolean },
): Brought {
  const { collections, unknownFields } = readCollections(source)
  const { profile } = options
  if (profile !== undefined && !collections.some(({ name, type }) => name === profile && type === 'auth')) {
    throw new Error(`there is no auth collection called ${profile}`)
  }
  const schema = targetSchemaOf(collections, counterOf(source), profile, options.withRelationViews)
  const people = readPeople(source, collections)
  const fileNotes: Plan['notes'] = []
  const buckets = new Map(
    schema.tables.flatMap(({ collection, bucket }) => (bucket === undefined ? [] : [[collection.id, bucket] as const])),
  )
  const files = listSourceFiles(folder, buckets, config.storage.max_file_size, fileNotes)
  fileNotes.push(...missingFiles(source, schema.tables, files))
  const plan: Plan = {
    source: `pocketbase ${resolve(folder)}`,
    apply: options.isApplied,
    tables: schema.planned,
    policies: schema.policies,
    users: { total: people.total, by_credential: people.byCredential },
    files: { count: files.length, bytes: files.reduce((sum, { size }) => sum + size, 0) },
    notes: [
      ...schema.notes,
      ...unknownFields.map(({ collection, field, type }) => ({
        level: 'skipped' as const,
        what: `${collection}.${field}`,
        why: `its type ${type} is not known`,
      })),
      ...people.notes,
      ...fileNotes,
    ],
  }
  return { schema, people, files, plan }
}

/** Where PocketBase keeps files in S3 there are none in the folder. */
const missingFiles = (
  source: Source,
  tables: readonly { collection: Collection; bucket: string | undefined }[],
  files: readonly SourceFile[],
): Plan['notes'] =>
  tables.flatMap(({ collection, bucket }) => {
    if (bucket === undefined || files.some((file) => file.bucket === bucket)) return []
    const has = new Set(source.columns(collection.name))
    const named = collection.fields.filter(({ type, name }) => type === 'file' && has.has(name))
    if (named.length === 0) return []
    const isNamed = named.map(({ name }) => `${sqliteName(name)} not in ('', '[]')`).join(' or ')
    if (source.all(`select 1 from ${sqliteName(collection.name)} where ${isNamed} limit 1`).length === 0) return []
    return [
      {
        level: 'warning' as const,
        what: `files of ${collection.name}`,
        why: 'records name files, and the folder has none: where PocketBase keeps them in S3, copy them to pb_data/storage first',
      },
    ]
  })

/** Numbers become bigint where every one is whole and exact. */
const counterOf = (source: Source) => {
  const known = new Map<string, { rows: number; isWhole: (field: string) => boolean }>()
  return (collection: Collection) => {
    const found = known.get(collection.id)
    if (found) return found
    if (source.columns(collection.name).length === 0)
      throw new Error(`the table of the collection ${collection.name} is missing in data.db`)
    const table = sqliteName(collection.name)
    const counted = {
      rows: Number(source.all(`select count(*) as n from ${table}`)[0]?.['n']),
      isWhole: (field: string): boolean => {
        const at = sqliteName(field)
        const odd = `typeof(${at}) <> 'integer' and not (typeof(${at}) = 'real' and ${at} = cast(${at} as integer) and abs(${at}) < 9e15)`
        return source.all(`select 1 from ${table} where ${odd} limit 1`).length === 0
      },
    }
    known.set(collection.id, counted)
    return counted
  }
}
