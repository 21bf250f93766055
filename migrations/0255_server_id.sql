-- Whose a backup is. It goes with the database into every copy, so a restored server knows its own.
insert into svc.settings (key, value) values ('server.id', to_jsonb(gen_random_uuid()::text)) on conflict (key) do nothing;
