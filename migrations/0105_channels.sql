-- Channels: policies on svc.channels say who may join (SELECT, with event null) and send (INSERT). It never has a row: the
-- server evaluates the policies on the row that would be.
create table svc.channels (
  channel text not null,
  event text,
  constraint never_a_row check (false)
);
alter table svc.channels enable row level security;

-- Processes that have members. One that says nothing for three seconds is gone, and its members with it.
create unlogged table svc.channel_nodes (
  id uuid primary key,
  seen_at timestamptz not null
);

-- Who is where. Unlogged: after a crash of the database every process brings its members again.
create unlogged table svc.channel_members (
  channel text collate "C" not null,
  -- The connection.
  ref uuid not null,
  node uuid not null,
  -- Null for the operator.
  user_id uuid,
  -- JSON as the client sent it.
  state text not null,
  -- Whether the others are told who it is; beyond a thousand they are told the number alone.
  is_listed boolean not null,
  primary key (channel, ref)
);
create index channel_members_node on svc.channel_members (node);

-- Who was put out of a channel and may not come back yet.
create table svc.channel_bans (
  channel text collate "C" not null,
  user_id uuid not null,
  ends_at timestamptz not null,
  primary key (channel, user_id)
);
