-- What user code can leave in a session, cleared away behind its flight. DISCARD ALL would drop the server's prepared
-- statements too. One call, because eight statements cost PostgreSQL and the server three times as much.
create function svc.tidy_session() returns void language plpgsql as $$
begin
  reset session authorization;
  reset role;
  reset all;
  execute 'close all';
  unlisten *;
  discard sequences;
  if pg_catalog.pg_my_temp_schema() <> 0 then
    discard temp;
  end if;
  perform pg_catalog.pg_advisory_unlock_all();
end $$;
