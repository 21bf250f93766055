import type { HistoryConfig } from '../../db/history/history.ts'
import { rfc3339, type Sql, sql } from '../../db/sql.ts'

/** Tables that are open, watched or in the log. */
export const historyStatus = ({ access, retention }: HistoryConfig): Sql => sql`
  select json_build_object('items', coalesce(json_agg(json_build_object(
    'table', svc.table_label(n.nspname, c.relname), 'open', ${access} = 'policies' or (${access} = 'opened' and o.target is not null),
    'actor', ${access} = 'policies' or (${access} = 'opened' and coalesce(o.actor, false)),
    'reaches_back_to', ${rfc3339(sql`svc.history_reaches(c.oid, make_interval(secs => ${retention}::float8))`)},
    'bytes', coalesce(l.bytes, 0)) order by n.nspname, c.relname), '[]'))::text
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  left join svc.open_histories o on o.target = c.oid
  left join (
    select g.table_oid, sum(coalesce(octet_length(g.record::text), 0) + coalesce(octet_length(g.old_record::text), 0)
      + coalesce((select p.bytes from svc.change_packs p where g.events > 1 and p.id = g.id), 0)) as bytes
    from svc.change_log g group by g.table_oid
  ) l on l.table_oid = c.oid
  where o.target is not null or l.table_oid is not null
    or exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'svc_watch')`
