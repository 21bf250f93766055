-- Many creates of one statement as one entry of the change log: an import would write a row of the log for each of its own.

-- An entry holds `events` changes, whose ids are its own and those that follow. So each number that the sequence gives out
-- stands for 1024 ids, and ranges never meet, whoever writes at the same time.
alter table svc.changes
  add column events smallint not null default 1,
  -- Of the new rows, by column: {"a": [first, second, …], "b": […]}. Then pk, record and old_record say nothing.
  add column packed json,
  add column key_columns text[],
  alter column id set increment by 1024;
-- Compressing would cost an import two to three times what storing does.
alter table svc.changes alter column packed set storage external;
alter table svc.changes alter column packed set statistics 0, alter column key_columns set statistics 0;

-- The changes in a packed entry, the first has n = 0.
create function svc.unpack_changes(packed json, key_columns text[]) returns table (n integer, pk jsonb, record jsonb)
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
  select made.n, (select coalesce(jsonb_object_agg(k, made.record -> k), '{}') from unnest(key_columns) as k), made.record
  from (
    select (cell.n - 1)::integer as n, jsonb_object_agg(columns.name, cell.value) as record
    from json_each(packed) as columns(name, cells)
    cross join lateral json_array_elements(columns.cells) with ordinality as cell(value, n)
    group by cell.n
  ) made
$$;

-- Appends the rows that one statement made, by column, as one entry. What would be too much for a reader to hold, or for
-- the ids of an entry, becomes an entry for each row. `framing`: what names add to the size of each image.
create function svc.append_creates(
  given_key text, target regclass, schema_name text, table_name text, actor text, key_columns text[], framing integer,
  made bigint, packed json
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  size bigint := octet_length(packed::text) + made * framing;
begin
  perform svc.require_log_key(given_key);
  if exists (select from pg_trigger t where t.tgrelid = target and t.tgname = 'svc_watch' and svc.fires(t.tgenabled)) then
    return true;
  end if;
  if made between 2 and 1024 and size <= 1048576 then
    insert into svc.changes (action, schema_name, table_name, actor, bytes, events, packed, key_columns)
    values ('create', append_creates.schema_name, append_creates.table_name, append_creates.actor::jsonb, size, made,
      append_creates.packed, append_creates.key_columns);
  else
    insert into svc.changes (action, schema_name, table_name, pk, record, actor, bytes)
    select 'create', append_creates.schema_name, append_creates.table_name, image.pk, image.record, append_creates.actor::jsonb,
      pg_column_size(image.record)
    from svc.unpack_changes(append_creates.packed, append_creates.key_columns) image order by image.n;
  end if;
  return true;
end $$;
