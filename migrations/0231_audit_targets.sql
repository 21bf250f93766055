-- What administrators did to an account, for the export of a person. The target of a change of data is its table.
create index audit_log_target on svc.audit_log (target, at desc) where table_name is null and target <> '';
