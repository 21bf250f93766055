-- Agents: text of others that code copies into a user's own tables.

-- As written_rows(), which processes of the version before go on calling while they are replaced, and how often each table was read.
create function svc.used_rows(given_key text) returns table (table_oid oid, made bigint, changed bigint, removed bigint, seen bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  return query select coalesce(pg_partition_root(s.relid)::oid, s.relid), sum(s.n_tup_ins)::bigint, sum(s.n_tup_upd)::bigint, sum(s.n_tup_del)::bigint,
      sum(s.seq_scan + s.seq_tup_read + coalesce(s.idx_scan, 0) + coalesce(s.idx_tup_fetch, 0))::bigint
    from pg_stat_xact_user_tables s where s.schemaname <> 'svc' and s.schemaname not like 'pg\_temp%'
    group by 1;
end $$;

-- What the operator's own code says: literals of functions, and defaults of these tables.
create function svc.words_of_code(tables oid[]) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select string_agg(t.words, ' ') from (
    select m[1] as words from svc.readable_code() c cross join lateral regexp_matches(c.body, '''((?:[^'']|'''')*)''', 'g') m
    union
    select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d where d.adrelid = any (tables)
  ) t
$$;

-- Whether text may come from where no table that was read shows it: foreign tables, and what reaches outside.
create function svc.reads_elsewhere(functions oid[], tables oid[]) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from pg_foreign_table) or svc.reaches_outside(functions, tables)
$$;
