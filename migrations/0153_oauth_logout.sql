-- Logout of OpenID Connect: where a browser may be sent afterwards, and where a client hears of it.
alter table svc.oauth_clients
  add column post_logout_redirect_uris text[] not null default '{}',
  add column backchannel_logout_uri text;

-- The end of a session, whatever ended it, is told to the clients where its user is signed in by it.
create function svc.queue_logouts() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from svc.oauth_logins) then
    return null;
  end if;
  insert into svc.queue (kind, group_key, payload)
  select 'backchannel_logout', l.client::text,
    jsonb_build_object('client', l.client, 'sid', l.session_id, 'sub', l.user_id)
  from ended e
  join svc.oauth_logins l on l.session_id = e.id
  join svc.oauth_clients c on c.id = l.client
  where c.backchannel_logout_uri is not null and c.revoked_at is null;
  delete from svc.oauth_logins l using ended e where l.session_id = e.id;
  return null;
end $$;
create trigger sessions_logouts after delete on svc.sessions
  referencing old table as ended for each statement execute function svc.queue_logouts();
