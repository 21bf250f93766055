-- Code that was written for Supabase reads request.jwt.claims. Where such a database was adopted, every request sets it to this.
-- `role` is never what a claim says; administrators and the server itself are no callers.
create function svc.jwt_claims() returns text
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select case current_setting('role', true)
    when 'svc_anon' then '{"role":"anon"}'
    when 'svc_authenticated' then (
      select ((c.all_of - 'metadata' - 'aud') || jsonb_strip_nulls(jsonb_build_object('aud', 'authenticated', 'role', 'authenticated',
          'phone', u.phone, 'is_anonymous', u.is_anonymous))
        || jsonb_build_object('app_metadata', coalesce(c.all_of -> 'app_metadata', '{}'), 'user_metadata', coalesce(c.all_of -> 'metadata', '{}')))::text
      from (select svc.claims() as all_of) c
      left join svc.users u on u.id = nullif(current_setting('svc.user_id', true), '')::uuid)
    else '{}' end
$$;

-- For a transaction that goes on as another caller of the same role.
create function svc.renew_dialect() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if current_setting('request.jwt.claims', true) <> '' then
    perform set_config('request.jwt.claims', svc.jwt_claims(), true);
  end if;
  if current_setting('request.jwt.claim.role', true) <> '' then
    perform set_config('request.jwt.claim.sub', coalesce(current_setting('svc.user_id', true), ''), true),
      set_config('request.jwt.claim.email', coalesce(current_setting('svc.user_email', true), ''), true);
  end if;
  if current_setting('ayb.user_id', true) is not null then
    perform set_config('ayb.user_id', coalesce(current_setting('svc.user_id', true), ''), true),
      set_config('ayb.user_email', coalesce(current_setting('svc.user_email', true), ''), true);
  end if;
end $$;
