-- Answers of writes that came with an Idempotency-Key, kept in the transaction of the write.
create table svc.kept_answers (
  -- SHA-256 of the caller, the request and the key; the key itself is not stored.
  id bytea primary key,
  -- Whose bytes they are: `user …`, `client …`, `network …` or `admin`.
  account text not null,
  -- The session that a refresh renewed; its answer ends with it.
  session_id uuid,
  -- SHA-256 of the request's body.
  body bytea not null,
  -- Encrypted with a key that is made from the Idempotency-Key; null where it was too large to keep.
  answer bytea,
  bytes integer not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
create index kept_answers_account on svc.kept_answers (account, created_at);
create index kept_answers_age on svc.kept_answers (created_at);
create index kept_answers_session on svc.kept_answers (session_id) where session_id is not null;
create index kept_answers_expiry on svc.kept_answers (expires_at) where session_id is not null;
alter table svc.kept_answers
  -- What is encrypted cannot be compressed.
  alter column answer set storage external, alter column answer set statistics 0, alter column body set statistics 0;

-- Bytes that are kept, per account and in all (account ''). The sum over the slots counts: backends write to different
-- ones, so that writers do not wait for each other's commit.
create table svc.kept_bytes (
  account text not null,
  slot smallint not null,
  bytes bigint not null,
  primary key (account, slot)
) with (fillfactor = 50);

-- Takes the lock of a key until the end of the transaction, or says why the write must not happen: it is being made
-- (SVK01), it was made (SVK02), there is no room for the answer of the account (SVK03) or at all (SVK04).
create function svc.claim_answer(
  given_key text, given_id bytea, lock bigint, given_account text, account_limit bigint, limit_in_all bigint
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  is_over boolean;
begin
  perform svc.require_log_key(given_key);
  if not pg_try_advisory_xact_lock(lock) then
    raise exception 'still in progress' using errcode = 'SVK01';
  end if;
  -- A statement of its own, whose snapshot is younger than the lock.
  select k.expires_at <= now() into is_over from svc.kept_answers k where k.id = given_id;
  if not is_over then
    raise exception 'already done' using errcode = 'SVK02';
  elsif is_over then
    delete from svc.kept_answers k where k.id = given_id;
  end if;
  if (select sum(b.bytes) from svc.kept_bytes b where b.account = given_account) >= account_limit then
    raise exception 'too many kept answers' using errcode = 'SVK03';
  end if;
  if (select sum(b.bytes) from svc.kept_bytes b where b.account = '') >= limit_in_all then
    raise exception 'too many kept answers' using errcode = 'SVK04';
  end if;
end $$;

-- Keeps the answer of a write whose key this transaction has claimed; not that of an account that is gone meanwhile.
create function svc.keep_answer(
  given_key text, id bytea, account text, session_id uuid, body bytea, answer bytea, seconds double precision
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- What a row takes beside its answer: columns, headers, index entries.
  size integer := 400 + coalesce(octet_length(answer), 0);
begin
  perform svc.require_log_key(given_key);
  if starts_with(account, 'user ') then
    perform from svc.users u where u.id = substr(account, 6)::uuid for key share;
    if not found then
      return;
    end if;
  end if;
  insert into svc.kept_answers (id, account, session_id, body, answer, bytes, expires_at)
  values (id, account, session_id, body, answer, size, clock_timestamp() + make_interval(secs => seconds));
  insert into svc.kept_bytes as b (account, slot, bytes)
  values (keep_answer.account, pg_backend_pid() % 64, size), ('', pg_backend_pid() % 64, size)
  on conflict on constraint kept_bytes_pkey do update set bytes = b.bytes + excluded.bytes;
end $$;

create function svc.count_removed_answers() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- Accounts in one order and the sum of all last, as svc.keep_answer() locks them.
  insert into svc.kept_bytes as b (account, slot, bytes)
  select coalesce(r.account, ''), pg_backend_pid() % 64, -sum(r.bytes) from removed r
  group by grouping sets ((r.account), ()) having count(*) > 0
  order by r.account desc nulls last
  on conflict on constraint kept_bytes_pkey do update set bytes = b.bytes + excluded.bytes;
  return null;
end $$;
create trigger count_removed after delete on svc.kept_answers
  referencing old table as removed for each statement execute function svc.count_removed_answers();

create function svc.forget_kept_bytes() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from svc.kept_bytes;
  return null;
end $$;
create trigger count_truncated after truncate on svc.kept_answers
  for each statement execute function svc.forget_kept_bytes();

-- Answers go with the account; those of a refresh also with the session.
create function svc.drop_kept_answers() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_table_name = 'users' then
    delete from svc.kept_answers k using gone where k.account = 'user ' || gone.id;
  else
    delete from svc.kept_answers k using gone where k.session_id = gone.id;
  end if;
  return null;
end $$;
create trigger drop_kept_answers after delete on svc.users
  referencing old table as gone for each statement execute function svc.drop_kept_answers();
create trigger drop_kept_answers after delete on svc.sessions
  referencing old table as gone for each statement execute function svc.drop_kept_answers();
