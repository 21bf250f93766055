-- The trail of data changes, made from the change log.

-- An object of key columns.
alter table svc.audit_log alter column record_id type jsonb using to_jsonb(record_id);

-- Whose changes are audited, and since when: of a change the newest row counts whose snapshot does not contain it, however
-- late the log is read. So what was committed before the audit was switched off is still audited.
create table svc.audit_settings (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  since pg_snapshot not null default pg_current_snapshot(),
  all_tables boolean not null,
  -- Unqualified or schema.table.
  tables text[] not null
);
