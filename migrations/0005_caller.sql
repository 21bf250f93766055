-- For policies: who calls. PostgreSQL inlines these, so they cost what current_setting costs. Nobody's id and address are
-- NULL, which no comparison holds for; the settings themselves are '' then, and '' is no uuid.

create function svc.uid() returns uuid language sql stable parallel safe
  as $$ select nullif(pg_catalog.current_setting('svc.user_id', true), '')::uuid $$;

create function svc.email() returns text language sql stable parallel safe
  as $$ select nullif(pg_catalog.current_setting('svc.user_email', true), '') $$;

create function svc.aal() returns text language sql stable parallel safe
  as $$ select nullif(pg_catalog.current_setting('svc.aal', true), '') $$;
