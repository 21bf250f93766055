-- Jobs: claimed like the rows of svc.queue (src/db/queue), but what is over is kept for a while.
create table svc.jobs (
  id              uuid primary key default gen_random_uuid(),
  type            text not null,
  state           text not null default 'queued' check (state in ('queued', 'running', 'completed', 'failed', 'canceled')),
  payload         jsonb not null default '{}',
  attempts        integer not null default 0,
  max_attempts    integer not null check (max_attempts >= 1),
  -- When it was meant to run. run_at is for claims alone: of a running job it is the end of the lease.
  planned_at      timestamptz not null default now(),
  run_at          timestamptz not null default now(),
  lease_until     timestamptz,
  worker          text,
  last_error      text,
  last_run_at     timestamptz,
  idempotency_key text,
  schedule_id     uuid,
  progress        real,
  -- The last lines that its handler wrote.
  log             text[] not null default '{}',
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  finished_at     timestamptz
);
-- Every run writes its row twice, and each index that must follow costs as much as the row itself: hence few and partial.
create index jobs_claims on svc.jobs (type, run_at, id) where state = 'queued';
create index jobs_held on svc.jobs (run_at) where worker is not null;
create index jobs_newest on svc.jobs (created_at desc, id desc);
create index jobs_in_vain on svc.jobs (state, created_at desc, id desc) where state in ('failed', 'canceled');
create index jobs_finished on svc.jobs (finished_at) where finished_at is not null;
create unique index jobs_by_key on svc.jobs (idempotency_key) where idempotency_key is not null;

create table svc.schedules (
  id           uuid primary key default gen_random_uuid(),
  name         text not null unique,
  job_type     text not null,
  cron_expr    text not null,
  timezone     text not null,
  payload      jsonb not null default '{}',
  enabled      boolean not null default true,
  max_attempts integer not null check (max_attempts >= 1),
  -- Null while disabled.
  next_run_at  timestamptz,
  last_run_at  timestamptz,
  created_at   timestamptz not null default now(),
  updated_at   timestamptz not null default now()
);
create index schedules_due on svc.schedules (next_run_at) where next_run_at is not null;

-- The schedules that the server made by itself, once: one that was edited or deleted stays so.
create table svc.default_schedules (
  name text primary key
);
