-- What ends access of an account, its clients and grants, in one order with what renews it (identity/users.ts).

-- Ends grants and everything that came of them, tells every process, and returns the ids of the ended access tokens. Grants
-- are locked first, in the order of their ids: a refresh under way ends before its new token is looked for.
drop function svc.end_oauth_grants(uuid[]);
create function svc.end_oauth_grants(ids uuid[]) returns setof text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from svc.oauth_grants where id = any(ids) order by id for update;
  perform svc.revoke('oauth_token', t.id::text) from svc.oauth_access_tokens t where t.grant_id = any(ids);
  return query select t.id::text from svc.oauth_access_tokens t where t.grant_id = any(ids);
  delete from svc.oauth_grants where id = any(ids);
end $$;

create index oauth_codes_user on svc.oauth_codes (user_id);
create index oauth_codes_client on svc.oauth_codes (client);

-- Remembered consents are bounded per user and swept when they are old; a use makes them new again.
create index oauth_consents_age on svc.oauth_consents (created_at);

-- A new link in a mail ends no earlier one; the first one used ends all of its purpose.
alter table svc.mail_tokens drop constraint mail_tokens_purpose_email_key;
create index mail_tokens_address on svc.mail_tokens (purpose, email);

-- A password reset ends the keys that a session made; keys of the operator stay. Only the operator gives a key an app.
alter table svc.api_keys add column by_operator boolean not null default false;
update svc.api_keys set by_operator = true where app_id is not null;

-- A sign-in that waits for its second factor because a session asked for it ends with that session.
alter table svc.pending_logins add column session_id uuid references svc.sessions on delete cascade;
create unique index pending_logins_session on svc.pending_logins (session_id);
