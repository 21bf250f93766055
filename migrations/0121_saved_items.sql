-- Queries and views of tables that administrators save in the dashboard. Those of viewers are their own, the others are shared.
create table svc.saved_items (
  id uuid primary key default gen_random_uuid(),
  kind text not null check (kind in ('query', 'view')),
  name text not null,
  content jsonb not null,
  -- Null: shared.
  owner_id uuid references svc.admins on delete cascade,
  -- Who changed it last, and the role at that time; null is the shared password, or one who is gone.
  author_id uuid references svc.admins on delete set null,
  author text not null,
  author_role text not null check (author_role in ('owner', 'operator', 'viewer')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index saved_items_kind on svc.saved_items (kind, name);
