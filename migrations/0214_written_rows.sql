-- Processes of the version before go on calling it while they are replaced.
create function svc.written_rows(given_key text) returns table (table_oid oid, made bigint, changed bigint, removed bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select u.table_oid, u.made, u.changed, u.removed from svc.used_rows(given_key) u
$$;
