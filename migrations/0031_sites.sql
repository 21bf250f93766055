-- Hosted sites: each has deploys, of which at most one is live.

create table svc.sites (
  id         uuid primary key default gen_random_uuid(),
  name       text not null,
  slug       text not null unique,
  spa_mode   boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table svc.site_deploys (
  id            uuid primary key default gen_random_uuid(),
  site_id       uuid not null references svc.sites (id) on delete cascade,
  status        text not null default 'uploading' check (status in ('uploading', 'live', 'superseded', 'failed')),
  file_count    integer not null default 0,
  total_bytes   bigint not null default 0,
  error_message text,
  superseded_at timestamptz,
  created_at    timestamptz not null default now(),
  updated_at    timestamptz not null default now()
);
create index on svc.site_deploys (site_id, created_at desc);
create unique index site_deploys_one_live on svc.site_deploys (site_id) where status = 'live';

create table svc.site_files (
  deploy_id    uuid not null references svc.site_deploys (id) on delete cascade,
  path         text collate "C" not null,
  content_type text not null,
  blob_id      uuid not null references svc.blobs (id),
  primary key (deploy_id, path)
);
create index on svc.site_files (blob_id);

create trigger release_on_delete after delete on svc.site_files
  referencing old table as old_rows for each statement execute function svc.release_blobs();
create trigger release_on_update after update on svc.site_files
  referencing old table as old_rows for each statement execute function svc.release_blobs();
