import { getOrCreate } from '../../../core/get-or-create.ts'
import { type DatabaseRole, SYSTEM } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import type { LivePlan } from '../../../db/rows/live-query.ts'
import type { Schema } from '../../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../../db/sql.ts'

/**
 * What a change of a table means to a live list. `judge`: its rows decide (OwnTable). `read`: the list is read again.
 * `rows gone`: as `read`, but for new rows: deletes and updates of a parent change its children without a word in the log.
 */
export type Reaction = 'judge' | 'read' | 'rows gone'

export type Dependencies = {
  readonly reactions: ReadonlyMap<number, Reaction>
  /** Something is read that the log does not name, or the time: it is read again every few seconds. */
  readonly isTimed: boolean
  /** Of a table that policies read not all writers are heard. */
  readonly isUnheard: boolean
}

/** `edges`: which table leads to which, as long as both are read. A cascade is one from the other end of a foreign key. */
type Found = {
  edges: [from: number, to: number, isCascade: boolean][]
  functions: [schema: string, name: string, volatility: string, isOfExtension: boolean][]
  readsTime: boolean
  unlogged: boolean
  unwatched: boolean
}

/** Functions of PostgreSQL that are not immutable, and yet answer the same as long as the caller is the same. */
const STEADY = new Set([
  ...['current_setting', 'to_json', 'to_jsonb', 'row_to_json', 'json_build_object', 'jsonb_build_object'],
  ...['json_build_array', 'jsonb_build_array', 'concat', 'concat_ws', 'format', 'array_to_string', 'to_char'],
  ...['textanycat', 'anytextcat', 'date_trunc', 'to_tsvector', 'to_tsquery', 'plainto_tsquery'],
])

/** Functions of svc that read a table. */
const OF_MEMBERS = new Set(['org_ids', 'org_role', 'claims'])
/** They also read the account, which is not in the log either. */
const OF_ACCOUNTS = new Set(['claims'])

/** Of a table d, unless its policies do not count: the expressions that decide who sees its rows, and the rules of a view. */
const rulesOf = (isSecured: boolean): Sql => sql`
  select p.oid, 'pg_policy'::regclass as class, p.polqual::text as tree from pg_policy p
  where ${isSecured} and p.polrelid = d.oid and p.polcmd in ('r', '*') and exists (select from pg_class c where c.oid = d.oid and c.relrowsecurity)
  union all
  select r.oid, 'pg_rewrite'::regclass, r.ev_action::text from pg_rewrite r join pg_class c on c.oid = r.ev_class
  where r.ev_class = d.oid and c.relkind in ('v', 'm')`

/**
 * Everything that the tables lead to. pg_depend knows the tables of a policy or view; its own table counts only where a
 * query in it reads it, which its tree tells. Functions that come with PostgreSQL are in the tree alone.
 */
const findDependencies = (tables: readonly number[], isSecured: boolean): Sql => sql`
  with recursive reached(oid, source, is_cascade) as (
    select t, 0::oid, false from unnest(${tables}::oid[]) as t
    union
    select n.oid, d.oid, n.is_cascade from reached d cross join lateral (
      select x.refobjid, false from (${rulesOf(isSecured)}) rule join pg_depend x on x.classid = rule.class and x.objid = rule.oid
        and x.refclassid = 'pg_class'::regclass where x.refobjid <> d.oid
      union all
      select d.oid, false from (${rulesOf(isSecured)}) rule where rule.class = 'pg_policy'::regclass and rule.tree ~ (':relid ' || d.oid || '\\M')
      union all select i.inhrelid, false from pg_inherits i where i.inhparent = d.oid
      union all select i.inhparent, false from pg_inherits i where i.inhrelid = d.oid and i.inhparent <> d.source
      union all select f.confrelid, true from pg_constraint f where f.conrelid = d.oid and f.contype = 'f'
        and (f.confdeltype in ('c', 'n', 'd') or f.confupdtype in ('c', 'n', 'd'))
        and not exists (select from pg_trigger t where t.tgrelid = d.oid and t.tgname = 'svc_watch' and t.tgenabled in ('O', 'A'))
    ) n(oid, is_cascade) join pg_class c on c.oid = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'f')
    where n.is_cascade or not d.is_cascade
  ), rules as materialized (
    select distinct rule.* from (select distinct oid from reached where not is_cascade) d cross join lateral (${rulesOf(isSecured)}) rule
  ), called as (
    select distinct m[1]::oid as oid from rules, regexp_matches(rules.tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\\d+)', 'g') as m
  )
  select json_build_object(
    'edges', (select coalesce(json_agg(json_build_array(r.source::int8, r.oid::int8, r.is_cascade)), '[]') from reached r),
    'functions', (select coalesce(json_agg(json_build_array(n.nspname, f.proname, f.provolatile,
        exists (select from pg_depend e where e.classid = 'pg_proc'::regclass and e.objid = f.oid and e.deptype = 'e'))), '[]')
      from called join pg_proc f on f.oid = called.oid join pg_namespace n on n.oid = f.pronamespace),
    'readsTime', exists (select from rules where tree ~ '\\{SQLVALUEFUNCTION :op [0-8] '),
    'unlogged', exists (select from reached r join pg_class c on c.oid = r.oid
      where not r.is_cascade and c.relnamespace in ('svc'::regnamespace, 'pg_catalog'::regnamespace) and c.relname not in ('members', 'objects')),
    'unwatched', exists (select from reached r join pg_class c on c.oid = r.oid
      where r.source <> 0 and not r.is_cascade and c.relkind in ('r', 'p', 'f') and c.relnamespace not in ('svc'::regnamespace, 'pg_catalog'::regnamespace)
        and not exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'svc_watch' and t.tgenabled in ('O', 'A'))))::text`

const MEMBERS = sql`select coalesce(to_regclass('svc.members')::oid::int8, 0)::text`

/** Which tables a plan depends on, looked up once for each snapshot of the schema. */
export class DependencyFinder {
  readonly #db: Db
  readonly #found = new WeakMap<Schema, Map<string, Promise<Found & { members: number }>>>()

  constructor(db: Db) {
    this.#db = db
  }

  async of({ tables, own }: LivePlan, role: DatabaseRole, schema: Schema): Promise<Dependencies> {
    const isSecured = role !== 'none'
    const key = JSON.stringify([isSecured, [...tables].sort()])
    const known = getOrCreate(this.#found, schema, () => new Map())
    const found = await getOrCreate(known, key, () => {
      const looking = this.#look(tables, isSecured)
      looking.catch(() => known.delete(key))
      return looking
    })
    return reactionsTo(found, own?.table.oid)
  }

  async #look(tables: readonly number[], isSecured: boolean): Promise<Found & { members: number }> {
    const [text, members] = await this.#db.fly(SYSTEM, [findDependencies(tables, isSecured), MEMBERS])
    return { ...(JSON.parse(text ?? '{}') as Found), members: Number(members) }
  }
}

function reactionsTo(
  { edges, functions, readsTime, unlogged, unwatched, members }: Found & { members: number },
  own?: number,
): Dependencies {
  const reactions = new Map<number, Reaction>()
  for (const [from, to, isCascade] of edges) {
    // Named by the query itself.
    if (from === 0 && to === own) reactions.set(to, reactions.get(to) ?? 'judge')
    else if (!isCascade) reactions.set(to, 'read')
    else if (reactions.get(to) !== 'read') reactions.set(to, to === own ? 'read' : 'rows gone')
  }
  if (functions.some(([schema, name]) => schema === 'svc' && OF_MEMBERS.has(name))) reactions.set(members, 'read')
  const isSteady = ([schema, name, volatility, isOfExtension]: Found['functions'][number]): boolean => {
    if (schema === 'svc') return !OF_ACCOUNTS.has(name)
    if (schema === 'pg_catalog') return volatility === 'i' || STEADY.has(name)
    return isOfExtension && volatility === 'i'
  }
  return {
    reactions,
    isTimed: readsTime || unlogged || !functions.every(isSteady),
    isUnheard: unwatched,
  }
}
