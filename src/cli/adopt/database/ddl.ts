import { Ident } from '../../../db/sql.ts'
import type { Note } from '../plan.ts'
import type { Catalogue, SourceFunction, SourcePolicy, SourceTable } from './catalogue.ts'

/**
 * `owner`: run as the role that owns what comes along; `server`: what touches objects of ours. `before`: everything that rows
 * need; `after`: what would change or refuse them on their way, and rights.
 */
export type SchemaStep = {
  by: 'owner' | 'server'
  phase: 'before' | 'after'
  /** As a note names it when it cannot be made. */
  what: string
  sql: string
  /** `schema.table` of a table that may be there already. */
  table?: string
  /** What a failure means. */
  level?: 'skipped' | 'closed'
}

type Translation = {
  /** Of every text of SQL: what it is called here. */
  rewrite: (text: string) => string
  /** Roles that policies and grants may name. */
  roles: ReadonlySet<string>
  /** Schemas that the source's backend has and this does not: what depends on them cannot come. */
  missing: (text: string) => string | undefined
}

export const named = (schema: string, name: string): string => new Ident(schema, name).quoted
const quote = (name: string): string => new Ident(name).quoted
const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

const LANGUAGES = new Set(['sql', 'plpgsql'])

/** What the app's own objects take; in an order in which each finds what it needs. */
export function stepsOf(source: Catalogue, { rewrite, roles, missing }: Translation, notes: Note[]): SchemaStep[] {
  const steps: SchemaStep[] = []
  const add = (what: string, sql: string, more: Partial<SchemaStep> = {}): void => {
    const without = missing(sql)
    if (without === undefined) steps.push({ by: 'owner', phase: 'before', what, sql: rewrite(sql), ...more })
    else notes.push({ level: more.level ?? 'skipped', what, why: `it uses ${without}, which is not here` })
  }
  for (const { schema, name, kind, text } of source.types) {
    const type = named(schema, name)
    if (kind === 'domain') add(`domain ${type}`, `create domain ${type} as ${text}`)
    else add(`type ${type}`, `create type ${type} as ${kind === 'composite' ? '' : `${kind} `}${text}`)
  }
  for (const { schema, name, text, isIdentity } of source.sequences) {
    if (!isIdentity)
      add(`sequence ${named(schema, name)}`, `create sequence if not exists ${named(schema, name)} ${text}`)
  }
  for (const table of source.tables) add(...tableStep(table))
  const functions = source.functions.filter((one) => isBrought(one, notes))
  const addFunction = ({ schema, signature, text }: SourceFunction): void =>
    add(`function ${schema}.${signature}`, text, { level: 'closed' })
  for (const one of functions) if (!one.isOfView) addFunction(one)
  for (const table of source.tables) addDefaults(table, add)
  for (const { schema, name, ownedBy, isIdentity } of source.sequences) {
    if (ownedBy !== null && !isIdentity)
      add(`sequence ${named(schema, name)}`, `alter sequence ${named(schema, name)} owned by ${ownedBy}`)
  }
  for (const { schema, table, name, type, text, isValid } of source.constraints) {
    const what = `constraint ${name} of ${schema}.${table}`
    const late = isValid || text.endsWith('NOT VALID') ? '' : ' not valid'
    const phase = type === 'f' || type === 'c' || type === 'x' ? 'after' : 'before'
    add(what, `alter table ${named(schema, table)} add constraint ${quote(name)} ${text}${late}`, {
      phase,
      table: `${schema}.${table}`,
    })
  }
  for (const { schema, name, kind, text, options } of source.views) {
    const how =
      options && options.length > 0
        ? ` with (${options.map((one) => one.replace(/=(.*)$/s, (_all, value: string) => ` = ${literal(value)}`)).join(', ')})`
        : ''
    const body = text.replace(/;\s*$/, '')
    if (kind === 'v')
      add(`view ${named(schema, name)}`, `create or replace view ${named(schema, name)}${how} as ${body}`)
    else
      add(
        `view ${named(schema, name)}`,
        `create materialized view if not exists ${named(schema, name)}${how} as ${body} with no data`,
      )
    if (kind === 'm')
      add(`view ${named(schema, name)}`, `refresh materialized view ${named(schema, name)}`, { phase: 'after' })
  }
  for (const one of functions) if (one.isOfView) addFunction(one)
  for (const { schema, table, name, text } of source.indexes)
    add(`index ${name}`, text.replace(' ON ONLY ', ' ON '), { phase: 'after', table: `${schema}.${table}` })
  for (const table of source.tables) {
    const of = { table: `${table.schema}.${table.name}` }
    const at = named(table.schema, table.name)
    if (table.rls) add(`row security of ${at}`, `alter table ${at} enable row level security`, of)
    if (table.forced)
      add(`row security of ${at}`, `alter table ${at} force row level security`, { ...of, phase: 'after' })
  }
  for (const policy of source.policies) {
    const sql = policySql(policy, named(policy.schema, policy.table), policy.name, roles, notes)
    if (sql !== undefined)
      add(`policy ${policy.name} of ${policy.schema}.${policy.table}`, sql, {
        level: 'closed',
        table: `${policy.schema}.${policy.table}`,
      })
  }
  for (const { schema, table, name, text, state } of source.triggers) {
    const of = { phase: 'after' as const, table: `${schema}.${table}` }
    add(`trigger ${name} of ${schema}.${table}`, text.replace(/^CREATE TRIGGER/, 'CREATE OR REPLACE TRIGGER'), of)
    if (state === 'D')
      add(
        `trigger ${name} of ${schema}.${table}`,
        `alter table ${named(schema, table)} disable trigger ${quote(name)}`,
        of,
      )
  }
  for (const { schema, name, last, isIdentity, ownedBy } of source.sequences) {
    if (last === null) continue
    const at = isIdentity && ownedBy !== null ? serialOf(ownedBy) : `${literal(named(schema, name))}::regclass`
    add(`sequence ${named(schema, name)}`, `select pg_catalog.setval(${at}, greatest(${last}, 1))`, { phase: 'after' })
  }
  addComments(source, add)
  addGrants(source, roles, add)
  for (const { kind, name } of source.others)
    notes.push({ level: 'skipped', what: `${kind} ${name}`, why: 'has to be made by hand' })
  return steps
}

type Add = (what: string, sql: string, more?: Partial<SchemaStep>) => void

function isBrought({ schema, signature, language, kind }: SourceFunction, notes: Note[]): boolean {
  if (kind !== 'f' && kind !== 'p') return false
  if (LANGUAGES.has(language)) return true
  notes.push({
    level: 'closed',
    what: `function ${schema}.${signature}`,
    why: `is written in ${language}: functions in SQL and PL/pgSQL come along`,
  })
  return false
}

/** Columns with what must be said at once; defaults follow, when functions are there. */
function tableStep(table: SourceTable): [string, string, Partial<SchemaStep>] {
  const at = named(table.schema, table.name)
  const more = { table: `${table.schema}.${table.name}` }
  const [parent] = table.parents ?? []
  const key = table.partitionKey === null ? '' : ` partition by ${table.partitionKey}`
  if (table.bound !== null && parent)
    return [
      `table ${at}`,
      `create table ${at} partition of ${named(parent.schema, parent.name)} ${table.bound}${key}`,
      more,
    ]
  const columns = table.columns
    .filter(({ isLocal }) => isLocal)
    .map((column) => {
      const { name, type, collation, notNull, identity, generated } = column
      const made =
        identity === ''
          ? generated === ''
            ? ''
            : ` generated always as (${column.default ?? 'null'})${generated === 's' ? ' stored' : ''}`
          : ` generated ${identity === 'a' ? 'always' : 'by default'} as identity`
      return `${quote(name)} ${type}${collation === null ? '' : ` collate ${collation}`}${made}${notNull ? ' not null' : ''}`
    })
  const inherits = parent
    ? ` inherits (${(table.parents ?? []).map((one) => named(one.schema, one.name)).join(', ')})`
    : ''
  const kind = table.isUnlogged ? 'unlogged ' : ''
  return [`table ${at}`, `create ${kind}table ${at} (${columns.join(', ')})${inherits}${key}`, more]
}

function addDefaults(table: SourceTable, add: Add): void {
  const at = named(table.schema, table.name)
  for (const { name, default: value, generated, identity } of table.columns) {
    if (value === null || generated !== '' || identity !== '') continue
    add(`default of ${at}.${name}`, `alter table ${at} alter column ${quote(name)} set default ${value}`, {
      table: `${table.schema}.${table.name}`,
    })
  }
}

function addComments({ tables, views }: Catalogue, add: Add): void {
  for (const { schema, name, comment, columns } of tables) {
    const more = { phase: 'after' as const, table: `${schema}.${name}` }
    if (comment !== null)
      add(`comment of ${schema}.${name}`, `comment on table ${named(schema, name)} is ${literal(comment)}`, more)
    for (const column of columns)
      if (column.comment !== null)
        add(
          `comment of ${schema}.${name}.${column.name}`,
          `comment on column ${named(schema, name)}.${quote(column.name)} is ${literal(column.comment)}`,
          more,
        )
  }
  for (const { schema, name, kind, comment } of views)
    if (comment !== null)
      add(
        `comment of ${schema}.${name}`,
        `comment on ${kind === 'm' ? 'materialized ' : ''}view ${named(schema, name)} is ${literal(comment)}`,
        { phase: 'after' },
      )
}

const PRIVILEGES = new Set([
  'SELECT',
  'INSERT',
  'UPDATE',
  'DELETE',
  'TRUNCATE',
  'REFERENCES',
  'TRIGGER',
  'USAGE',
  'EXECUTE',
])

/** Exactly what those roles had. A new function is everybody's until that is taken away. */
function addGrants({ grants, functions }: Catalogue, roles: ReadonlySet<string>, add: Add): void {
  for (const { schema, name, signature, kind, language } of functions) {
    if (!LANGUAGES.has(language) || (kind !== 'f' && kind !== 'p')) continue
    const at = `${quote(schema)}.${quote(name)}${signature.slice(name.length)}`
    add(`rights of ${schema}.${signature}`, `revoke all on routine ${at} from public`, { level: 'closed' })
  }
  const together = new Map<string, { to: string; kind: string; on: string; privileges: string[] }>()
  for (const { kind, on, privilege, grantee, columns } of grants) {
    if ((grantee !== 'public' && !roles.has(grantee)) || !PRIVILEGES.has(privilege)) continue
    if (kind === 'schema' && (privilege !== 'USAGE' || (on === 'public' && grantee === 'public'))) continue
    const to = grantee === 'public' ? 'public' : quote(grantee)
    const key = `${kind} ${on} ${to}`
    const known = together.get(key) ?? { to, kind, on, privileges: [] }
    known.privileges.push(`${privilege.toLowerCase()}${columns === null ? '' : ` (${columns})`}`)
    together.set(key, known)
  }
  for (const { to, kind, on, privileges } of together.values())
    add(`rights of ${on}`, `grant ${privileges.join(', ')} on ${kind} ${on} to ${to}`, {
      phase: 'after',
      level: 'closed',
      by: kind === 'schema' && on === 'public' ? 'server' : 'owner',
    })
}

export function policySql(
  policy: SourcePolicy,
  on: string,
  name: string,
  roles: ReadonlySet<string>,
  notes: Note[],
  as: (expression: string) => string = (expression) => expression,
): string | undefined {
  const known = policy.roles.filter((role) => role === 'public' || roles.has(role))
  const lost = policy.roles.filter((role) => !known.includes(role))
  const what = `policy ${policy.name} of ${policy.schema}.${policy.table}`
  // Fewer roles under a restrictive policy would be fewer restrictions.
  const all = policy.isPermissive || lost.length === 0 ? known : ['public']
  if (lost.length > 0)
    notes.push({
      level: policy.isPermissive ? 'closed' : 'changed',
      what,
      why: policy.isPermissive
        ? `is for the role ${lost.join(', ')}, which no request has here`
        : `is for the role ${lost.join(', ')}, which is not here: it restricts everybody`,
    })
  if (all.length === 0) return undefined
  const to = all.map((role) => (role === 'public' ? 'public' : quote(role))).join(', ')
  return `create policy ${quote(name)} on ${on} as ${policy.isPermissive ? 'permissive' : 'restrictive'} for ${policy.command} to ${to}${
    policy.using === null ? '' : ` using (${as(policy.using)})`
  }${policy.check === null ? '' : ` with check (${as(policy.check)})`}`
}

/** `schema.table.column`, each quoted where it has to be. */
function serialOf(ownedBy: string): string {
  const column = /\.("(?:[^"]|"")+"|[^."]+)$/.exec(ownedBy)?.[1] ?? ''
  const table = ownedBy.slice(0, -column.length - 1)
  const plain = column.startsWith('"') ? column.slice(1, -1).replaceAll('""', '"') : column
  return `pg_catalog.pg_get_serial_sequence(${literal(table)}, ${literal(plain)})`
}
