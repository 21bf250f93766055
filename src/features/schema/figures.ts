import { ON_BEHALF } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { jsonText, type Route, route } from '../../http/route.ts'

const actions = t.array(t.oneOf(['SELECT', 'INSERT', 'UPDATE', 'DELETE'] as const))

const answer = t.object({
  database: t.object({ name: t.string(), version: t.string(), size: t.integer({ description: 'bytes' }) }),
  tables: t.array(
    t.object({
      schema: t.string(),
      name: t.string(),
      rows: t.nullable(t.integer({ description: 'an estimate; null where it was never analysed' })),
      size: t.integer({ description: 'bytes, with indexes' }),
      live: t.boolean({ description: 'whether it is watched' }),
      visitors: actions,
      users: actions,
    }),
  ),
})

/** What a role may do by its grants on a table, or on a column of it. */
const grantsOf = (role: string): Sql => sql`
  (select coalesce(json_agg(a.name order by a.n), '[]')
   from unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) with ordinality as a(name, n)
   where has_table_privilege(${role}::name, c.oid, a.name)
     or (a.name <> 'DELETE' and has_any_column_privilege(${role}::name, c.oid, a.name)))`

/** Of a partitioned table, the sum of its partitions. */
const ROWS = sql`
  case when c.relkind = 'p' then (select coalesce(sum(greatest(p.reltuples, 0)), 0)::bigint
    from pg_partition_tree(c.oid) pt join pg_class p on p.oid = pt.relid and pt.isleaf)
  when c.reltuples >= 0 then c.reltuples::bigint end`

const figures: Sql = sql`
  select json_build_object(
    'database', json_build_object('name', current_database(), 'version', current_setting('server_version'),
      'size', pg_database_size(current_database())),
    'tables', (select coalesce(json_agg(json_build_object('schema', n.nspname, 'name', c.relname, 'rows', ${ROWS},
        'size', coalesce(pg_total_relation_size(c.oid), 0),
        'live', exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname like 'svc\\_watch%'),
        'visitors', ${grantsOf('svc_anon')}, 'users', ${grantsOf('svc_authenticated')}) order by n.nspname, c.relname), '[]')
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p', 'm', 'f', 'v') and n.nspname not in ('pg_catalog', 'information_schema', 'svc')
        and n.nspname not like 'pg\\_t%'))::text`

/** Of the catalogue alone, so that it is no SQL of the administrator's and stands in no trail. */
export const tableFiguresRoute = (db: Db): Route =>
  route('GET /api/admin/schema/figures', {
    summary: 'Of the database and its tables: rows, bytes, grants, whether it is watched',
    auth: 'admin',
    leastRole: 'viewer',
    answers: { 200: answer },
    // A size waits for the lock of a table that is being altered, which the server's own work must not.
    handle: async () => jsonText(200, (await db.fly(ON_BEHALF, figures)) ?? '{}'),
  })
