-- Identities elsewhere have an id, by which their owner or an administrator removes them. Those that a session linked end as keys do that a
-- session made: kept with the time, so that their tokens are refused instead of making an account, until a session links them again.
alter table svc.identities add column id uuid not null default gen_random_uuid();
alter table svc.identities add constraint identities_id_key unique (id);
alter table svc.identities add column by_session boolean not null default false;
alter table svc.identities add column ended_at timestamptz;
-- Of other issuers, which are addresses, what came after the account: it was made together with its own identity.
update svc.identities i set by_session = true from svc.users u
  where u.id = i.user_id and position('://' in i.provider) > 0 and i.created_at > u.created_at;
