-- Search of text. See src/features/collections/list/search/.

-- The words of a text. A row may hold so many that PostgreSQL refuses to make a vector of them; then it is the words of
-- its first half, so that one row never ends the search of all others. It cannot be parallel because of that. Names are
-- written with their schema instead of a search path: that would cost each row more than the call.
create function svc.search_vector(config regconfig, document text) returns tsvector
language plpgsql immutable strict cost 300 as $$
begin
  if pg_catalog.octet_length(document) operator(pg_catalog.<) 100000 then
    return pg_catalog.to_tsvector(config, document);
  end if;
  begin
    return pg_catalog.to_tsvector(config, document);
  exception when program_limit_exceeded then
    return svc.search_vector(config, pg_catalog.left(document, pg_catalog.length(document) operator(pg_catalog./) 2));
  end;
end $$;

-- Where the rows are that fulfil a condition of the server's, under nobody's policies: on a table with policies
-- PostgreSQL uses no index whose operator might tell about rows that the caller may not see. What comes back is places
-- in the table, to be read with the caller's rights in the same statement, under the same condition. NULL = not to be
-- known from here: more than `most`, rows in tables that inherit from this one, a definer who is under policies itself,
-- or a row for which the condition fails. `similarity` is what pg_trgm's operators take from a setting.
create function svc.candidates(given_key text, target regclass, condition text, given text[], most int, similarity text)
returns tid[]
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set row_security = off set enable_seqscan = off as $$
declare
  places tid[];
begin
  perform svc.require_log_key(given_key);
  if exists (select from pg_inherits i where i.inhparent = target) then
    return null;
  end if;
  if similarity is not null then
    perform set_config('pg_trgm.word_similarity_threshold', similarity, true);
  end if;
  begin
    execute format('select array_agg(f.ctid) from (select svc_t.ctid from only %s as svc_t where %s limit $2) f',
      target, condition) into places using given, most + 1;
  exception when others then
    return null;
  end;
  return case when coalesce(cardinality(places), 0) <= most then coalesce(places, '{}') end;
end $$;
