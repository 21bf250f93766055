import { type Context, UsageError } from '../../command/command.ts'
import { withDatabaseUrl } from '../../command/database.ts'
import { openFileSource, type PlaceOfFiles } from '../database/file-source.ts'
import { writeMigrationFiles } from '../database/migration-text.ts'
import { SUPABASE_HELPERS } from '../database/owner.ts'
import { openOwnDatabase, openSourceDatabase, type SourceDatabase } from '../database/source.ts'
import { type Target, withTarget } from '../database/target.ts'
import { printPlan } from '../plan.ts'
import { authSteps, copySupabase, schemasOfSupabase } from './copy.ts'
import { adoptInPlace } from './in-place.ts'
import { planSupabase, type SupabasePlan } from './plan-supabase.ts'
import { undoInPlace } from './undo.ts'

/** `svc adopt supabase`: prints the plan; `--apply` does it, `--out` writes it as migrations, `--undo` takes it away. */
export async function adoptSupabase(context: Context): Promise<number> {
  const [url] = context.args
  const isInPlace = context.flag('in-place') === true
  const isApplied = context.flag('apply') === true
  const out = context.flag('out')
  const place = context.flag('files')
  if ((url === undefined) !== isInPlace) throw new UsageError(context.usage)
  if (isApplied && out !== undefined) throw new UsageError('--out writes migrations instead of --apply: choose one')
  if (isInPlace && out !== undefined) throw new UsageError('--in-place makes no tables: there is nothing for --out')
  if (context.flag('undo') === true) {
    if (!isInPlace) throw new UsageError('--undo is for --in-place')
    return undo(context, isApplied)
  }
  const { config } = context.config()
  const files = typeof place === 'string' ? await openFileSource(place, config) : undefined
  try {
    if (isInPlace)
      return await withDatabaseUrl(config, async (own) => {
        const source = await openOwnDatabase(own)
        return adopt(context, source, { isApplied, isInPlace, files, out: undefined }).finally(() => source.close())
      })
    const source = await openSourceDatabase(url ?? '', process.env)
    return await adopt(context, source, {
      isApplied,
      isInPlace,
      files,
      out: typeof out === 'string' ? out : undefined,
    }).finally(() => source.close())
  } finally {
    files?.close()
  }
}

async function adopt(
  context: Context,
  source: SourceDatabase,
  options: { isApplied: boolean; isInPlace: boolean; files: PlaceOfFiles | undefined; out: string | undefined },
): Promise<number> {
  const { isApplied, isInPlace, files, out } = options
  const { config } = context.config()
  const planned = await planSupabase(source.client, {
    shown: source.shown,
    isApplied,
    hasFiles: files !== undefined,
    isInPlace,
    notes: source.notes,
  })
  if (isApplied) {
    const work = isInPlace ? adoptInPlace : copySupabase
    planned.plan.done = await withTarget(config, async (target) => {
      await requireInvokerViews(target)
      return work(target, source.client, planned, files)
    })
  }
  const written = out === undefined ? [] : await writeSteps(out, planned)
  if (context.json) context.print(JSON.stringify(planned.plan))
  else {
    printPlan(planned.plan, context.print)
    for (const name of written) context.print(`wrote ${name}`)
  }
  return 0
}

/** Its views read with the rights of their caller. On PostgreSQL 14 they would read past policies. */
async function requireInvokerViews({ client }: Target): Promise<void> {
  const { rows } = await client.query<{ version: string }>(`select current_setting('server_version_num') as version`)
  const major = Math.floor(Number(rows[0]?.version) / 10_000)
  if (major < 15) throw new Error(`adopting from Supabase needs PostgreSQL 15 or newer, this is ${major}`)
}

function writeSteps(folder: string, planned: SupabasePlan): Promise<string[]> {
  const setup = {
    roles: ['anon', 'authenticated', 'service_role'],
    schemas: [
      ...schemasOfSupabase(planned),
      ...planned.catalogue.schemas.map(({ name }) => name).filter((name) => name !== 'public'),
    ],
    extensions: planned.extensions,
  }
  // Triggers on auth.users come with the users: before, they would fire for each of them.
  const auth = authSteps(planned).filter(({ by, phase }) => by === 'owner' && phase === 'before')
  return writeMigrationFiles(folder, 'supabase', SUPABASE_HELPERS, setup, [...auth, ...planned.steps])
}

async function undo(context: Context, isApplied: boolean): Promise<number> {
  const { config } = context.config()
  const { removed, notes } = await withTarget(config, (target) => undoInPlace(target, isApplied))
  if (context.json) {
    context.print(JSON.stringify({ source: 'supabase in place', apply: isApplied, removed, notes }))
    return 0
  }
  for (const what of removed) context.print(`${isApplied ? 'removed' : 'would remove'} ${what}`)
  for (const { level, what, why } of notes) context.print(`${level}: ${what}: ${why}`)
  if (!isApplied) context.print('nothing was changed; --apply does it')
  return 0
}
