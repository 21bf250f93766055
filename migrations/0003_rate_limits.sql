-- Requests counted per subject and window, shared by all nodes. Lost in a crash, which only forgives.
create unlogged table svc.rate_counters (
  key text primary key,
  count integer not null,
  ends_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
