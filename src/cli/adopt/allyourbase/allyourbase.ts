import type pg from 'pg'
import { changeSchema } from '../../../db/setup/migrate.ts'
import { type Context, UsageError } from '../../command/command.ts'
import { withDatabaseUrl } from '../../command/database.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import type { SchemaStep } from '../database/ddl.ts'
import { openFileSource, type PlaceOfFiles } from '../database/file-source.ts'
import { finishTables, makeTables, tableExists } from '../database/make-schema.ts'
import { writeMigrationFiles } from '../database/migration-text.ts'
import { AYB_HELPERS, joinRole, prepareOwner, prepareRole } from '../database/owner.ts'
import { bringUsers } from '../database/people.ts'
import { bringTable } from '../database/rows.ts'
import { openOwnDatabase, openSourceDatabase, type SourceDatabase } from '../database/source.ts'
import { bringFilesOf, hasMark, markAs, rowProgress, type Target, withTarget } from '../database/target.ts'
import { forgetLater, printPlan } from '../plan.ts'
import { bringAppsAndMails } from './apps-and-mails.ts'
import { AYB_ROLE, type AybPlan, aybObjects, aybUsers, planAllYourBase } from './plan-ayb.ts'

const SOURCE = 'allyourbase'
/** `svc adopt allyourbase`: as of Supabase, with its tables and settings. */
export async function adoptAllYourBase(context: Context): Promise<number> {
  const [url] = context.args
  const isInPlace = context.flag('in-place') === true
  const isApplied = context.flag('apply') === true
  const [out, place] = [context.flag('out'), context.flag('files')]
  if ((url === undefined) !== isInPlace) throw new UsageError(context.usage)
  if (out !== undefined && (isApplied || isInPlace))
    throw new UsageError('--out writes migrations instead of --apply, and not of --in-place')
  const { config } = context.config()
  const files = typeof place === 'string' ? await openFileSource(place, config) : undefined
  const run = async (source: SourceDatabase): Promise<number> => {
    try {
      const options = { shown: source.shown, isApplied, hasFiles: files !== undefined, isInPlace, notes: source.notes }
      const planned = await planAllYourBase(source.client, options)
      if (isApplied)
        planned.plan.done = await withTarget(config, (target) =>
          apply(target, source.client, planned, files, isInPlace),
        )
      const written =
        typeof out === 'string'
          ? await writeMigrationFiles(out, SOURCE, AYB_HELPERS, setupOf(planned), [
              ...uidSteps(planned),
              ...planned.steps,
            ])
          : []
      if (context.json) context.print(JSON.stringify(planned.plan))
      else {
        printPlan(planned.plan, context.print)
        for (const name of written) context.print(`wrote ${name}`)
      }
      return 0
    } finally {
      await source.close()
    }
  }
  try {
    if (isInPlace) return await withDatabaseUrl(config, async (own) => run(await openOwnDatabase(own)))
    return await run(await openSourceDatabase(url ?? '', process.env))
  } finally {
    files?.close()
  }
}

const setupOf = ({ catalogue, hasUid }: AybPlan) => ({
  roles: [AYB_ROLE],
  schemas: [
    ...(hasUid ? ['auth'] : []),
    ...catalogue.schemas.map(({ name }) => name).filter((name) => name !== 'public'),
  ],
  extensions: [],
})

/** Newer versions have this one function for policies. */
const uidSteps = ({ hasUid }: AybPlan): SchemaStep[] =>
  hasUid
    ? [
        'create or replace function auth.uid() returns uuid language sql stable parallel safe as $f$ select svc.uid() $f$',
        `grant usage on schema auth to ${AYB_ROLE}`,
      ].map((sql) => ({ by: 'owner', phase: 'before', what: 'auth.uid()', sql }))
    : []

async function apply(
  target: Target,
  from: pg.Client,
  planned: AybPlan,
  files: PlaceOfFiles | undefined,
  isInPlace: boolean,
): Promise<Record<string, number>> {
  const { client, box } = target
  const { plan, catalogue } = planned
  await changeSchema(client, () => begin(client, planned, isInPlace), forgetLater(plan.notes))
  const users = await bringUsers(aybUsers(from), { source: SOURCE, client, box, keepRow: undefined }, plan.notes)
  let [rows, tables] = [0, 0]
  const progress = rowProgress(plan)
  const heard = (count: number): void => progress.add(count)
  if (!isInPlace) {
    for (const table of catalogue.tables) {
      if (table.kind === 'p' || !(await tableExists(client, table))) continue
      if (!(await hasMark(client, SOURCE, 'rows', `${table.schema}.${table.name}`))) tables++
      rows += await bringTable({ source: SOURCE, target: client, from, heard }, table)
      progress.fileDone()
    }
    progress.end()
  }
  await changeSchema(client, () => finish(client, planned, isInPlace), forgetLater(plan.notes))
  const count = files ? await bringFilesOf(target, SOURCE, files, aybObjects(from, planned.buckets), plan) : 0
  return { tables, users, rows, files: count }
}

async function begin(client: pg.Client, planned: AybPlan, isInPlace: boolean): Promise<void> {
  if (await hasMark(client, SOURCE, 'step', 'schema')) return
  await prepareOwner(client, AYB_HELPERS)
  await prepareRole(client, AYB_ROLE)
  if (!isInPlace) {
    const schemas = planned.hasUid ? [...planned.catalogue.schemas, { name: 'auth' }] : planned.catalogue.schemas
    await makeTables(
      client,
      { ...planned.catalogue, schemas },
      [...uidSteps(planned), ...planned.steps],
      planned.plan.notes,
    )
  }
  for (const { name, access } of planned.buckets)
    await client.query('insert into svc.storage_buckets (name, access) values ($1, $2) on conflict (name) do nothing', [
      name,
      access,
    ])
  await markAs(client, SOURCE, 'step', 'schema')
}

async function finish(client: pg.Client, planned: AybPlan, isInPlace: boolean): Promise<void> {
  if (await hasMark(client, SOURCE, 'step', 'finish')) return
  if (isInPlace) {
    for (const sql of keptUsers(planned)) await client.query(sql)
    await markAs(client, SOURCE, 'dialect', 'ayb')
  } else await finishTables(client, planned.steps, planned.plan.notes)
  await bringAppsAndMails(client, planned.besides)
  await joinRole(client, 'svc_authenticated', AYB_ROLE)
  await markAs(client, SOURCE, 'step', 'finish')
}

/** In place, foreign keys lead to its users: who registers here has a row there. */
function keptUsers({ users }: AybPlan): string[] {
  const there = new Map(users.columns.map((column) => [column.name, column]))
  const values = (
    [
      ['email', there.get('email')?.notNull ? `coalesce(new.email, new.id::text)` : 'new.email'],
      ['password_hash', `'$none$'`],
      ['email_verified', 'new.email_verified_at is not null'],
      ['is_anonymous', 'new.is_anonymous'],
      ['created_at', 'new.created_at'],
      ['updated_at', 'new.updated_at'],
    ] as const
  ).filter(([name]) => there.has(name))
  const names = values.map(([name]) => name).join(', ')
  return [
    `grant select, insert, update, delete on public._ayb_users to ${ADOPTED_OWNER}`,
    `set local role ${ADOPTED_OWNER}`,
    `create or replace function ${AYB_HELPERS}.keep_user() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $f$ begin
       if current_setting('svc.adopting', true) = 'on' then return null; end if;
       if tg_op = 'DELETE' then delete from public._ayb_users u where u.id = old.id;
       elsif tg_op = 'INSERT' then insert into public._ayb_users (id, ${names}) values (new.id, ${values.map(([, value]) => value).join(', ')}) on conflict do nothing;
       else update public._ayb_users u set email = ${values.find(([name]) => name === 'email')?.[1] ?? 'u.email'} where u.id = new.id; end if;
       return null; end $f$`,
    'reset role',
    `create or replace trigger allyourbase_user after insert or delete or update of email on svc.users for each row execute function ${AYB_HELPERS}.keep_user()`,
  ]
}
