import { ADOPTED_OWNER } from '../adopted-owner.ts'
import type { Note, PlannedPolicy, PlannedTable } from '../plan.ts'
import type { Collection, CollectionField } from './collections.ts'
import { generatorOf } from './generated-text.ts'
import { indexOf } from './indexes.ts'
import { accessOf } from './policies.ts'
import { relationViewsOf } from './relation-views.ts'
import { literal, quoted, type World } from './rule-sql.ts'
import { HELPERS, helperFunctions } from './sql-functions.ts'
import type { Statement, TargetColumn } from './statements.ts'
import { type TargetView, viewsOf } from './views.ts'

/** Added after the rows, because rows may be older than a rule of theirs. */
type Constraint = { collection: string; name: string; sql: string; isIndex?: true }

export type TargetSchema = {
  tables: readonly { collection: Collection; columns: readonly TargetColumn[]; bucket: string | undefined }[]
  planned: PlannedTable[]
  policies: PlannedPolicy[]
  statements: Statement[]
  /** Grants, policies, and what follows them. */
  access: Statement[]
  constraints: Constraint[]
  views: readonly TargetView[]
  notes: Note[]
}

type Counts = (collection: Collection) => { rows: number; isWhole: (field: string) => boolean }

const profileOrder = (collections: readonly Collection[], first: string | undefined): Collection[] => {
  const auth = collections.filter(({ type }) => type === 'auth')
  const rank = ({ name }: Collection): number => (name === first ? 0 : name === 'users' ? 1 : 2)
  return [...auth].sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1))
}

export function targetSchemaOf(
  collections: readonly Collection[],
  counts: Counts,
  profile: string | undefined,
  withRelationViews: boolean,
): TargetSchema {
  const notes: Note[] = []
  const kept = collections.filter(({ type }) => type !== 'view')
  const world: World = {
    byName: new Map(kept.map((one) => [one.name, one])),
    byId: new Map(kept.map((one) => [one.id, one])),
  }
  const buckets = bucketsOf(kept)
  const tables = kept.map((collection) => {
    if (Buffer.byteLength(collection.name) > 63)
      throw new Error(`the collection ${collection.name} has a name of more than 63 bytes`)
    if (collection.type === 'auth' && collection.fields.some(({ name }) => name === 'account_id')) {
      throw new Error(`${collection.name} has a field account_id, which is the account here: rename it first`)
    }
    const { isWhole } = counts(collection)
    return { collection, columns: columnsOf(collection, isWhole), bucket: buckets.get(collection.id) }
  })
  const profiles = profileOrder(kept, profile)
  const statements: Statement[] = [
    ...tables.map(({ collection, columns }) => ({
      by: 'owner' as const,
      collection: collection.name,
      sql: `create table public.${quoted(collection.name)} (${columns.map(({ name, type, extra }) => `${quoted(name)} ${type}${extra}`).join(', ')})`,
    })),
    ...helperFunctions(profiles, quoted, literal).map((sql) => ({ by: 'owner' as const, collection: undefined, sql })),
    ...tables.flatMap(({ collection, columns }) => tableSetup(collection, columns)),
  ]
  const policies: PlannedPolicy[] = []
  const access: Statement[] = []
  for (const { collection, columns, bucket } of tables) {
    const one = accessOf(collection, columns, world, bucket)
    access.push(...one.statements)
    policies.push(...one.policies)
    notes.push(...one.notes)
  }
  const views = viewsOf(
    collections.filter(({ type }) => type === 'view'),
    world,
  )
  const relations = withRelationViews ? relationViewsOf(collections, world) : { views: [], planned: [], notes: [] }
  const [first] = profiles
  if (first) access.push(...laterProfiles(first))
  return {
    tables,
    planned: [
      ...tables.map(({ collection, columns }) => ({
        name: collection.name,
        rows: counts(collection).rows,
        from: `collection ${collection.name}`,
        columns: columns.map(({ name, type, from }) => ({ name, type, from })),
      })),
      ...views.planned,
      ...relations.planned,
    ],
    policies: [...policies, ...views.policies],
    views: [...views.views, ...relations.views],
    statements,
    access,
    constraints: tables.flatMap(({ collection, columns }) => constraintsOf(collection, columns, world, notes)),
    notes: [...notes, ...views.notes, ...relations.notes],
  }
}

function bucketsOf(collections: readonly Collection[]): Map<string, string> {
  const taken = new Set<string>()
  const found = new Map<string, string>()
  for (const { id, name, fields } of collections) {
    if (!fields.some(({ type }) => type === 'file')) continue
    const plain = name.toLowerCase()
    const isGood =
      /^[a-z0-9_-]{1,63}$/.test(plain) && !plain.startsWith('_svc') && !['buckets', 'upload', 'tus'].includes(plain)
    const bucket = isGood && !taken.has(plain) ? plain : `pb-${id.toLowerCase().replaceAll(/[^a-z0-9_-]/g, '-')}`
    taken.add(bucket)
    found.set(id, bucket)
  }
  return found
}

function columnsOf({ type, fields }: Collection, isWhole: (field: string) => boolean): TargetColumn[] {
  const column = (name: string, kind: string, extra: string, from: string, field?: CollectionField): TargetColumn => ({
    name,
    type: kind,
    extra,
    from,
    field,
  })
  const of = (field: CollectionField): TargetColumn => {
    const { name, from } = field
    if (field.isMultiple) return column(name, 'text[]', " not null default '{}'", from, field)
    switch (field.type) {
      case 'number':
        return column(
          name,
          field.onlyInt && isWhole(name) ? 'bigint' : 'double precision',
          ' not null default 0',
          from,
          field,
        )
      case 'bool':
        return column(name, 'boolean', ' not null default false', from, field)
      case 'date':
      case 'autodate':
        return column(name, 'timestamp with time zone', '', from, field)
      case 'relation':
        return column(name, 'text', '', from, field)
      case 'json':
        return column(name, 'jsonb', '', from, field)
      case 'geoPoint':
        return column(name, 'jsonb', ` not null default '{"lon":0,"lat":0}'`, from, field)
      default:
        return column(name, 'text', " not null default ''", from, field)
    }
  }
  return [
    column('id', 'text', ' primary key', 'id'),
    ...(type === 'auth'
      ? [column('account_id', 'uuid', ' not null unique references svc.users (id) on delete cascade', 'the account')]
      : []),
    ...fields.map(of),
  ]
}

/** Unless it was changed. */
const ID_PATTERN = '[a-z0-9]{15}'

/** Ids, moments and row security. */
function tableSetup({ name, id, idPattern }: Collection, columns: readonly TargetColumn[]): Statement[] {
  const table = `public.${quoted(name)}`
  const dates = columns.filter(({ field }) => field?.type === 'autodate')
  const touch = `${HELPERS}.${quoted(`touch_${id}`)}`
  const set = (when: 'onCreate' | 'onUpdate'): string =>
    dates
      .filter(({ field }) => field?.[when])
      .map((column) => `new.${quoted(column.name)} := date_trunc('milliseconds', now());`)
      .join(' ')
  const keep = dates
    .filter(({ field }) => !field?.onUpdate)
    .map((column) => `new.${quoted(column.name)} := old.${quoted(column.name)};`)
    .join(' ')
  const all = [
    `alter table ${table} alter column id set default ${(idPattern === ID_PATTERN ? undefined : generatorOf(idPattern)) ?? `${HELPERS}.new_id()`}`,
    ...columns.flatMap((column) => {
      const made = generatorOf(column.field?.autogenerate ?? '')
      return made === undefined ? [] : [`alter table ${table} alter column ${quoted(column.name)} set default ${made}`]
    }),
    `alter table ${table} enable row level security`,
    ...(dates.length > 0
      ? [
          `create or replace function ${touch}() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $f$ begin
  if current_user = '${ADOPTED_OWNER}' and current_setting('svc.adopting', true) = 'on' then return new; end if;
  if tg_op = 'INSERT' then ${set('onCreate')} else ${keep} ${set('onUpdate')} end if;
  return new;
end $f$`,
          `create trigger pocketbase_dates before insert or update on ${table} for each row execute function ${touch}()`,
        ]
      : []),
  ]
  return all.map((sql) => ({ by: 'owner', collection: name, sql }))
}

/** Who registers later gets a profile, where the collection takes one without further fields. */
function laterProfiles({ name }: Collection): Statement[] {
  return [
    {
      by: 'owner',
      collection: undefined,
      sql: `create or replace function ${HELPERS}.add_profile() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $f$ begin
  if new.is_anonymous or current_setting('svc.adopting', true) = 'on' then return null; end if;
  insert into public.${quoted(name)} (account_id) values (new.id);
  return null;
exception when integrity_constraint_violation then return null;
end $f$`,
    },
    {
      by: 'server',
      collection: undefined,
      sql: `create or replace trigger pocketbase_profile after insert on svc.users for each row execute function ${HELPERS}.add_profile()`,
    },
  ]
}

function constraintsOf(
  { name, id, indexes }: Collection,
  columns: readonly TargetColumn[],
  world: World,
  notes: Note[],
): Constraint[] {
  const table = `public.${quoted(name)}`
  const found: Constraint[] = []
  const check = (column: TargetColumn, what: string, condition: string): void => {
    const constraint = `pb_${id}_${what}_${columns.indexOf(column)}`.slice(0, 63)
    found.push({
      collection: name,
      name: constraint,
      sql: `alter table ${table} add constraint ${quoted(constraint)} check (${condition})`,
    })
  }
  for (const column of columns) {
    const { field } = column
    if (!field) continue
    const at = quoted(column.name)
    const isText = column.type === 'text' && field.type !== 'relation'
    if (field.required) {
      if (column.type === 'text[]') check(column, 'required', `cardinality(${at}) > 0`)
      else if (isText) check(column, 'required', `${at} <> ''`)
      else if (field.type === 'number') check(column, 'required', `${at} <> 0`)
      else if (field.type === 'bool') check(column, 'required', at)
      else if (field.type !== 'autodate') check(column, 'required', `${at} is not null`)
    }
    if (field.type === 'text' && field.max !== undefined && field.max > 0)
      check(column, 'max', `char_length(${at}) <= ${field.max}`)
    if (field.from === 'text' && field.min !== undefined && field.min > 0)
      check(column, 'min', `${at} = '' or char_length(${at}) >= ${field.min}`)
    if (field.from === 'email') check(column, 'email', `${at} = '' or ${at} like '%_@_%'`)
    if (field.from === 'url') check(column, 'url', `${at} = '' or ${at} like '%_:_%'`)
    if (field.type === 'number' && field.min !== undefined) check(column, 'min', `${at} = 0 or ${at} >= ${field.min}`)
    if (field.type === 'number' && field.max !== undefined) check(column, 'max', `${at} = 0 or ${at} <= ${field.max}`)
    if (field.type === 'select' && field.values.length > 0) {
      const values = `array[${field.values.map(literal).join(', ')}]`
      check(column, 'values', field.isMultiple ? `${at} <@ ${values}` : `${at} = '' or ${at} = any (${values})`)
    }
    const target = field.type === 'relation' ? world.byId.get(field.target) : undefined
    if (target && !field.isMultiple) {
      const constraint = `pb_${id}_fk_${columns.indexOf(column)}`.slice(0, 63)
      const then = field.cascade ? 'cascade' : field.required ? 'no action' : 'set null'
      found.push({
        collection: name,
        name: constraint,
        sql: `alter table ${table} add constraint ${quoted(constraint)} foreign key (${at}) references public.${quoted(target.name)} (id) on delete ${then} deferrable`,
      })
    }
    if (field.autogenerate !== '' && generatorOf(field.autogenerate) === undefined)
      notes.push({
        level: 'changed',
        what: `${name}.${column.name}`,
        why: `no value is made by its pattern ${field.autogenerate}: add a default`,
      })
    if (field.pattern !== '')
      notes.push({
        level: 'changed',
        what: `${name}.${column.name}`,
        why: `its pattern is not checked here, because expressions differ: add a CHECK for ${field.pattern}`,
      })
    if (field.type === 'relation' && !target)
      notes.push({
        level: 'warning',
        what: `${name}.${column.name}`,
        why: 'the collection it leads to does not come along: no foreign key',
      })
    if (field.type === 'relation' && field.isMultiple)
      notes.push({
        level: 'changed',
        what: `${name}.${column.name}`,
        why: 'several relations are a text[] of ids without a foreign key; --relation-views adds a view of them as rows',
      })
  }
  for (const text of indexes) {
    const index = indexOf(text, columns)
    if (index === 'skip') continue
    if (!index) {
      notes.push({ level: 'skipped', what: `an index of ${name}`, why: `not plain enough to translate: ${text}` })
      continue
    }
    const title = `pb_${id}_${index.name}`.slice(0, 63)
    found.push({
      collection: name,
      name: title,
      isIndex: true,
      sql: `create ${index.unique ? 'unique ' : ''}index ${quoted(title)} on ${table} (${index.parts.join(', ')})${index.where}`,
    })
  }
  return found
}
