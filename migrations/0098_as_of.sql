-- The rows of a table that have changed since a moment, as they were then; image null: there was none of this key. For the
-- server alone. `only`: the key of one row, which is found by an index.
create function svc.put_back(given_key text, target oid, since timestamptz, since_id bigint, only_key text, most bigint)
returns table (key text, image jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
begin
  perform svc.require_log_key(given_key);
  if only_key is null and (
    select sum(coalesce(octet_length(c.old_record::text), 0) + coalesce((select p.bytes from svc.change_packs p where c.events > 1 and p.id = c.id), 0))
    from svc.change_log c where c.table_oid = target and case when since_id is null then c.at > since else c.id + c.events - 1 > since_id end
  ) > most then
    raise exception 'too much has changed since' using errcode = 'SV413';
  end if;
  return query
    with changed as (
      select v.id, v.key as new_key, s.columns, v.old_record, svc.key_of(v.old_record, s.key_columns) as old_key
      from (
        select w.* from svc.changes w where only_key is null and w.table_oid = target
        union all select w.* from svc.changes_of(target, only_key) w where only_key is not null
      ) v
      cross join lateral (select s.columns, s.key_columns from svc.change_shapes s where s.id = v.shape limit 1) s
      where case when since_id is null then v.at > since else v.id > since_id end
    ), touched as (
      select distinct on (t.key) t.key, t.id, t.is_old from (
        select c.new_key as key, c.id, c.old_key is not distinct from c.new_key as is_old from changed c
        union all select c.old_key, c.id, true from changed c where c.old_key <> c.new_key
      ) t where t.key is not null order by t.key, t.id
    )
    select t.key, case when t.is_old then svc.image_now(c.old_record, c.columns, target, false) end
    from touched t join changed c on c.id = t.id;
end $$;
