import type pg from 'pg'

/** What a logical copy has beside its rows. */
export type LogicalDefinitions = {
  version: 1
  roles: LogicalRole[]
  extensions: string[]
  /** SQL that makes everything the rows need, and what comes after them: indexes, constraints, triggers. */
  before: string
  after: string
  tables: LogicalTable[]
  sequences: LogicalSequence[]
  /** Materialized views that had rows, in the order of their making. */
  views: string[]
}

type LogicalRole = { name: string; memberOf: string[]; inherits: boolean; bypassesRls: boolean; logsIn: boolean }
/** Names are quoted. `condition` says which rows of an extension's own table are those of its users. */
export type LogicalTable = { name: string; owner: string; columns: string[]; condition: string }
type LogicalSequence = { name: string; value: string; isCalled: boolean }

export const MOST_DEFINITION_BYTES = 256 * 2 ** 20

/** `t` of PostgreSQL, whose values stay text here. */
const isTrue = (value: unknown): boolean => value === 't'

export async function readRoles(client: pg.Client): Promise<LogicalRole[]> {
  const { rows } = await client.query<Record<keyof LogicalRole, string>>(`
    select r.rolname as name, r.rolinherit as inherits, r.rolbypassrls as "bypassesRls", r.rolcanlogin as "logsIn",
      coalesce((select jsonb_agg(g.rolname order by g.rolname) from pg_auth_members m join pg_roles g on g.oid = m.roleid
        where m.member = r.oid), '[]')::text as "memberOf"
    from pg_roles r where r.rolname !~ '^pg_' order by r.rolname`)
  return rows.map(({ name, inherits, bypassesRls, logsIn, memberOf }) => ({
    name,
    memberOf: JSON.parse(memberOf) as string[],
    inherits: isTrue(inherits),
    bypassesRls: isTrue(bypassesRls),
    logsIn: isTrue(logsIn),
  }))
}

export const readExtensionNames = async (client: pg.Client): Promise<string[]> => {
  const { rows } = await client.query<{ name: string }>(
    `select extname as name from pg_extension where extname <> 'plpgsql' order by extname`,
  )
  return rows.map(({ name }) => name)
}

const OTHERS = `n.nspname !~ '^pg_' and n.nspname <> 'information_schema'`
const isMember = (oid: string): string =>
  `exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = ${oid} and d.deptype = 'e')`

/** Tables with rows of their own; of an extension's tables those that it keeps rows of its users in. */
export async function readTables(client: pg.Client): Promise<LogicalTable[]> {
  const { rows } = await client.query<{ name: string; owner: string; columns: string; condition: string }>(`
    select format('%I.%I', n.nspname, c.relname) as name, coalesce(x.condition, '') as condition,
      quote_ident(pg_get_userbyid(c.relowner)) as owner,
      coalesce((select jsonb_agg(quote_ident(a.attname) order by a.attnum) from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''), '[]')::text as columns
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
      left join (select u.oid, u.condition from pg_extension e, unnest(e.extconfig, e.extcondition) as u(oid, condition)) x
        on x.oid = c.oid
    where c.relkind = 'r' and c.relpersistence <> 't' and ${OTHERS} and (x.oid is not null or not ${isMember('c.oid')})
    order by c.oid`)
  return rows.map((row) => ({ ...row, columns: JSON.parse(row.columns) as string[] }))
}

export async function readSequences(client: pg.Client): Promise<LogicalSequence[]> {
  const { rows } = await client.query<{ name: string }>(`
    select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'S' and c.relpersistence <> 't' and ${OTHERS} and not ${isMember('c.oid')} order by c.oid`)
  const sequences: LogicalSequence[] = []
  for (const { name } of rows) {
    const { rows: values } = await client.query<{ value: string; called: string }>(
      `select last_value as value, is_called as called from ${name}`,
    )
    for (const { value, called } of values) sequences.push({ name, value, isCalled: isTrue(called) })
  }
  return sequences
}

export const readFilledViews = async (client: pg.Client): Promise<string[]> => {
  const { rows } = await client.query<{ name: string }>(`
    select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'm' and c.relispopulated and ${OTHERS} and not ${isMember('c.oid')} order by c.oid`)
  return rows.map(({ name }) => name)
}
