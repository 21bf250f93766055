-- Where code that others wrote may run, it runs as a role that has little.

-- A key of an organisation ends with its user's membership, for every process at once.
create function svc.end_member_keys() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.revoke('key', k.id::text) from svc.api_keys k join gone g on g.org_id = k.org_id and g.user_id = k.user_id
  where k.revoked_at is null;
  return null;
end $$;
create trigger end_keys after delete on svc.members
  referencing old table as gone for each statement execute function svc.end_member_keys();

-- As before, for plain tables alone: a view or foreign table of this name would run its maker's code. PostgreSQL simplifies
-- expressions of indexes and statistics before it reads, which runs functions of the table's owner: where the server is a superuser
-- it makes svc_finder the owner of this (src/db/setup/admin-logins.ts), which reads the rows of exposed tables and does nothing else.
create or replace function svc.candidates(given_key text, target regclass, condition text, given text[], most int, similarity text)
returns tid[]
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set row_security = off set enable_seqscan = off as $$
declare
  places tid[];
begin
  perform svc.require_log_key(given_key);
  if exists (select from pg_inherits i where i.inhparent = target)
    or not exists (select from pg_class c where c.oid = target and c.relkind = 'r') then
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

-- What svc_finder needs beside the rows (svc.grant_logins): functions and operators of extensions wherever they are. Answers how
-- many grants there were.
create function svc.grant_finder() returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  space name;
  granted integer := 0;
begin
  if not exists (select from pg_roles where rolname = 'svc_finder') then
    return 0;
  end if;
  for space in
    select distinct n.nspname from pg_namespace n
    where (n.nspname = 'svc' or n.oid in (select e.extnamespace from pg_extension e))
      and not has_schema_privilege('svc_finder', n.oid, 'usage')
  loop
    execute format('grant usage on schema %I to svc_finder', space);
    granted := granted + 1;
  end loop;
  return granted;
end $$;

-- Whether an account is there, held until the end of the transaction: for the login of undo, which sees no table of accounts.
create function svc.user_is_there(user_id uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from svc.users u where u.id = user_is_there.user_id for key share;
  return found;
end $$;
revoke execute on function svc.user_is_there(uuid) from public;

create or replace function svc.violated_key(target regclass, image jsonb, as_parent boolean, is_gone boolean) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  fk record;
  violated boolean;
begin
  for fk in
    select c.conname, c.conrelid::regclass as child, c.confrelid::regclass as parent,
      (select string_agg(format('c.%I = given.%I', a.attname, b.attname), ' and ') from unnest(c.conkey, c.confkey) as k(child, parent)
       join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.child
       join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.parent) as child_of,
      (select string_agg(format('p.%1$I = given.%1$I', b.attname), ' and ') from unnest(c.confkey) as k(parent)
       join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.parent) as same_parent,
      (select string_agg(format('p.%I = given.%I', b.attname, a.attname), ' and ') from unnest(c.conkey, c.confkey) as k(child, parent)
       join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.child
       join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.parent) as parent_of,
      (select string_agg(format('given.%I is not null', a.attname), ' and ') from unnest(c.conkey) as k(child)
       join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.child) as refers,
      -- The column that names an account.
      (select format('%I', a.attname) from pg_attribute a join pg_attribute b on b.attrelid = c.confrelid and b.attnum = c.confkey[1]
       where a.attrelid = c.conrelid and a.attnum = c.conkey[1] and cardinality(c.conkey) = 1
         and c.confrelid = 'svc.users'::regclass and b.attname = 'id') as account
    from pg_constraint c
    where c.contype = 'f' and c.conparentid = 0 and case when as_parent then c.confrelid else c.conrelid end = target
  loop
    if as_parent then
      execute format('select exists (select from %1$s c, jsonb_populate_record(null::%2$s, $1) given where %3$s
          and (not $2 or not exists (select from %2$s p where %4$s)))', fk.child, fk.parent, fk.child_of, fk.same_parent)
        into violated using image, is_gone;
    elsif fk.account is not null then
      execute format('select not svc.user_is_there(given.%1$s) from jsonb_populate_record(null::%2$s, $1) given where %3$s',
        fk.account, fk.child, fk.refers) into violated using image;
    else
      execute format('select not exists (select from %1$s p, jsonb_populate_record(null::%2$s, $1) given where %3$s for key share of p)
          from jsonb_populate_record(null::%2$s, $1) given where %4$s', fk.parent, fk.child, fk.parent_of, fk.refers)
        into violated using image;
    end if;
    if violated then
      return fk.conname;
    end if;
  end loop;
  return null;
end $$;
