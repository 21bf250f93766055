-- Images of rows are compressed while their writers wait, and pglz takes five times as long as all else that is done to
-- them, also where it saves nothing. lz4 is quick; PostgreSQL was not always built with it, and then images stay as they are.
alter table svc.changes alter column record set storage external, alter column old_record set storage external;
do $$
begin
  if exists (select from pg_catalog.pg_settings s where s.name = 'default_toast_compression' and 'lz4' = any (s.enumvals)) then
    alter table svc.changes
      alter column record set storage extended, alter column record set compression lz4,
      alter column old_record set storage extended, alter column old_record set compression lz4;
  end if;
end $$;
