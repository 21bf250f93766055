-- What svc adopt has brought, so that a run that was ended goes on, and a later one restores nothing that was changed or
-- deleted here.
create table svc.adopted (
  source text not null,
  -- table, row, user, file
  kind   text not null,
  key    text not null,
  -- Of a user: the account it became.
  target text,
  at     timestamptz not null default now(),
  primary key (source, kind, key)
);
