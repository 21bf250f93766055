-- The server's own tables. Requests never see this schema.

create table svc.settings (
  key text primary key,
  value jsonb not null,
  updated_at timestamptz not null default now()
);

-- Every committed change of a record, written by the transaction that made it. Ids are given out one by one, after the
-- row is locked by its writer: for one row their order is that of its commits. Over all rows a smaller id may be
-- committed later, so readers stay below what is settled (src/db/changes/settled.ts).
create table svc.changes (
  id bigint generated always as identity primary key,
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default now(),
  -- create, update or delete. A check would cost the writers a tenth of what the log costs them.
  action text not null,
  schema_name text not null,
  table_name text not null,
  pk jsonb not null default '{}',
  record jsonb,
  old_record jsonb,
  actor jsonb,
  -- Of both images before compression: readers take no more than they can hold.
  bytes integer not null default 0
);
-- Nothing is ever looked up by these, so autovacuum need not sort samples of them.
alter table svc.changes
  alter column pk set statistics 0, alter column record set statistics 0, alter column old_record set statistics 0,
  alter column actor set statistics 0;

-- Known to the server and to the functions below, and to nobody who calls: what comes with it comes from the server.
create table svc.log_key (
  only_row boolean primary key default true check (only_row),
  key text not null
);
insert into svc.log_key (key) values (replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));

create function svc.require_log_key(given text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if given is distinct from (select k.key from svc.log_key k) then
    raise exception 'only the server writes the change log' using errcode = 'insufficient_privilege';
  end if;
end $$;

-- Who is writing. The server signs what it says in svc.actor; code of the database can change the setting, but then it
-- is nobody's word.
create function svc.current_actor() returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  said text := current_setting('svc.actor', true);
  actor text := substr(said, 66);
begin
  if said <> '' then
    if left(said, 64) = (select encode(sha256(convert_to(k.key || '.' || actor || '.' || k.key, 'UTF8')), 'hex') from svc.log_key k) then
      return actor::jsonb;
    end if;
    return '{"kind": "unknown"}';
  end if;
  return case when current_setting('role') in ('svc_anon', 'svc_authenticated') or session_user = 'svc_authenticator'
    then '{"kind": "unknown"}' else '{"kind": "system"}' end;
end $$;

-- Whether a trigger that is there is at work too. Said to be dear, so that PostgreSQL finds the trigger by its index: to
-- read all of the small pg_trigger looks cheaper, and takes half as long as the whole change.
create function svc.fires(enabled "char") returns boolean
language plpgsql immutable cost 10000 set search_path = pg_catalog, pg_temp as $$
begin
  return enabled in ('O', 'A');
end $$;

-- Appends one change. Whether the API or the trigger of svc.watch() writes the log is decided here, under the lock that
-- the change itself holds on the table, so that each change is logged by exactly one of them. Every name is qualified: a
-- search path of its own would cost each change as much as looking for the trigger.
create function svc.append_change(
  given_key text, action text, target regclass, schema_name text, table_name text, actor text,
  pk jsonb, record jsonb, old_record jsonb
) returns boolean
language plpgsql security definer as $$
begin
  insert into svc.changes (action, schema_name, table_name, pk, record, old_record, actor, bytes)
  select append_change.action, append_change.schema_name, append_change.table_name, append_change.pk,
    append_change.record, append_change.old_record, append_change.actor::pg_catalog.jsonb,
    coalesce(pg_catalog.pg_column_size(append_change.record), 0)
      operator(pg_catalog.+) coalesce(pg_catalog.pg_column_size(append_change.old_record), 0)
  from svc.log_key k
  where k.key operator(pg_catalog.=) given_key and not exists (
    select from pg_catalog.pg_trigger t
    where t.tgrelid operator(pg_catalog.=) target and t.tgname operator(pg_catalog.=) 'svc_watch' and svc.fires(t.tgenabled));
  if not found then
    perform svc.require_log_key(given_key);
  end if;
  return true;
end $$;

-- The same for each element of the arrays, in their order.
create function svc.append_changes(
  given_key text, action text, target regclass, schema_name text, table_name text, actor text,
  pks jsonb[], records jsonb[], old_records jsonb[]
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  insert into svc.changes (action, schema_name, table_name, pk, record, old_record, actor, bytes)
  select append_changes.action, append_changes.schema_name, append_changes.table_name, entry.pk, entry.record, entry.old_record,
    append_changes.actor::jsonb, coalesce(pg_column_size(entry.record), 0) + coalesce(pg_column_size(entry.old_record), 0)
  from unnest(pks, records, old_records) with ordinality as entry(pk, record, old_record, n)
  where not exists (
    select from pg_trigger t where t.tgrelid = target and t.tgname = 'svc_watch' and svc.fires(t.tgenabled))
  order by entry.n;
  return true;
end $$;

-- What was revoked lately: each process drops its cached verdicts about these.
create table svc.revocations (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('session', 'user', 'key', 'oauth_token', 'admin', 'all_users')),
  subject text not null,
  at timestamptz not null default now()
);
create index revocations_at on svc.revocations (at);

create function svc.revoke(kind text, subject text) returns void
language sql as $$
  insert into svc.revocations (kind, subject) values (kind, subject);
  select pg_catalog.pg_notify('svc_revocations', '');
$$;
