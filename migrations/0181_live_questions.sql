-- One question for many callers, one after the other and planned once: whether a change concerns their live lists. A statement of its
-- own for each caller costs several times what its answer does. It runs with the rights of its caller and has no search path of its
-- own, because policies are to see the one that a list has. Answers a character each, 1 or 0.
create function svc.ask_callers(question text, given text[], sessions jsonb) returns text
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  session jsonb;
  answer text;
  answers text := '';
  run text := 'execute svc_question' || coalesce('(' || (
    select pg_catalog.string_agg(pg_catalog.quote_nullable(v), ', ' order by n) from pg_catalog.unnest(given) with ordinality as g(v, n)) || ')', '');
begin
  execute 'prepare svc_question as ' || question;
  for session in select pg_catalog.jsonb_array_elements(sessions) loop
    perform pg_catalog.set_config('svc.user_id', session ->> 0, true), pg_catalog.set_config('svc.user_email', session ->> 1, true),
      pg_catalog.set_config('svc.aal', session ->> 2, true), pg_catalog.set_config('svc.claims', session ->> 3, true),
      pg_catalog.set_config('svc.actor', '', true);
    execute run into answer;
    answers := answers || case answer when 'false' then '0' else '1' end;
  end loop;
  deallocate svc_question;
  return answers;
exception when query_canceled or others then
  -- What is prepared outlives the transaction.
  begin
    deallocate svc_question;
  exception when invalid_sql_statement_name then
    null;
  end;
  raise;
end $$;
