-- The span of the request that made a change (W3C traceparent), set by servers with telemetry, so that webhooks go on with its trace in
-- whatever process sends them. The default is set apart from the column: entries that are there have none, and are not written again.
alter table svc.change_log add column trace text;
alter table svc.change_log
  alter column trace set default nullif(left(current_setting('svc.trace', true), 55), ''),
  alter column trace set statistics 0;
