-- As 0004_watch.sql made it; in a table with a column t the alias alone would be that column.
create or replace function svc.whole_row(given_key text, target regclass, pk jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  condition text := svc.same_key(target);
  image jsonb;
begin
  perform svc.require_log_key(given_key);
  if condition is not null then
    execute format('select to_jsonb(t.*)%1$s from %2$s t, jsonb_populate_record(null::%2$s, $1) given where %3$s',
      ' || ' || svc.converted_columns(target, 't'), target, condition) into image using pk;
  end if;
  return image;
end $$;
