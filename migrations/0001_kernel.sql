-- The server's own tables. Requests never see this schema; they may only append to the change log.

create table svc.settings (
  key text primary key,
  value jsonb not null,
  updated_at timestamptz not null default now()
);

-- Every committed change of a record, written by the transaction that made it. Ids alone are not in commit order:
-- readers go by (xid, id) and stay below the oldest running transaction.
create table svc.changes (
  -- Numbers are fetched a hundred at a time: they only have to rise within a transaction, which has one session.
  id bigint generated always as identity (cache 100),
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
  primary key (xid, id)
);
-- Nothing is ever looked up by these, so autovacuum need not sort samples of them.
alter table svc.changes
  alter column pk set statistics 0, alter column record set statistics 0, alter column old_record set statistics 0,
  alter column actor set statistics 0;

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
