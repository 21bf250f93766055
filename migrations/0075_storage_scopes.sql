-- A scope is one word about data and may carry words about files (core/scope.ts has the order).
alter table svc.api_keys drop constraint api_keys_scope_check;
alter table svc.api_keys add constraint api_keys_scope_check
  check (scope ~ '^(\*|readonly|readwrite)( storage:read)?( storage:write)?$');
