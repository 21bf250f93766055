-- The actor is read once, not for each row, and arrays hand out their elements in order: nothing is sorted.
create or replace function svc.append_changes(
  given_key text, action text, target regclass, schema_name text, table_name text, actor text,
  pks jsonb[], records jsonb[], old_records jsonb[]
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  who jsonb := actor::jsonb;
begin
  perform svc.require_log_key(given_key);
  insert into svc.changes (action, schema_name, table_name, pk, record, old_record, actor, bytes)
  select append_changes.action, append_changes.schema_name, append_changes.table_name, entry.pk, entry.record, entry.old_record,
    who, coalesce(pg_column_size(entry.record), 0) + coalesce(pg_column_size(entry.old_record), 0)
  from unnest(pks, records, old_records) as entry(pk, record, old_record)
  where not exists (
    select from pg_trigger t where t.tgrelid = target and t.tgname = 'svc_watch' and svc.fires(t.tgenabled));
  return true;
end $$;
