-- Agents: OAuth grants for a resource (RFC 8707) with terms that the user chose, and what agents did.

-- Where a client comes from: the operator, a document at its client id, or RFC 7591.
alter table svc.oauth_clients
  add column origin text not null default 'operator' check (origin in ('operator', 'document', 'registered')),
  add column fetched_at timestamptz;

-- `resource`: empty for the API. `auto`: rows an hour that need no second step. `release`: every write waits for the user.
alter table svc.oauth_consents
  add column resource text not null default '',
  add column auto integer check (auto between 0 and 100),
  add column release boolean not null default false,
  add column until timestamptz;
alter table svc.oauth_consents drop constraint oauth_consents_pkey;
alter table svc.oauth_consents add primary key (user_id, client, redirect_uri, scope, tables, resource);
alter table svc.oauth_codes
  add column resource text not null default '',
  add column auto integer,
  add column release boolean not null default false,
  add column until timestamptz;
alter table svc.oauth_grants
  add column resource text not null default '',
  add column auto integer,
  add column release boolean not null default false,
  add column until timestamptz;

-- One per user and client. `generation` moves on with each quarantine, so that what was confirmed before ends.
create table svc.agents (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references svc.users on delete cascade,
  -- The id of an OAuth client or an API key.
  client text not null,
  client_id text not null,
  quarantined_at timestamptz,
  generation bigint not null default 0,
  created_at timestamptz not null default now(),
  unique (user_id, client)
);

-- What agents committed: the rows of the last hour are counted, and only these request ids can be undone.
create table svc.agent_writes (
  request_id text primary key,
  agent uuid not null references svc.agents on delete cascade,
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default now(),
  rows integer not null,
  by_hand boolean not null,
  -- Not all of it was logged, or code of other rights wrote it.
  is_final boolean not null
);
create index agent_writes_hour on svc.agent_writes (agent, at);

-- Confirmations are good once.
create table svc.agent_confirmed (
  nonce text primary key,
  expires_at timestamptz not null
);
create index agent_confirmed_expiry on svc.agent_confirmed (expires_at);

-- Writes that wait for the user's own hand.
create table svc.agent_pending (
  id uuid primary key default gen_random_uuid(),
  agent uuid not null references svc.agents on delete cascade,
  -- Null: an API key.
  grant_id uuid,
  key_id text not null,
  tool text not null,
  args text not null,
  digest text not null,
  changes text not null,
  counts text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '24 hours'
);
create index agent_pending_agent on svc.agent_pending (agent, created_at);
create index agent_pending_expiry on svc.agent_pending (expires_at);

-- Rows that an agent wrote in the last hour without the user's hand.
create function svc.agent_rows(agent_id uuid) returns bigint
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(sum(w.rows), 0) from svc.agent_writes w where w.agent = agent_id and not w.by_hand and w.at > now() - interval '1 hour'
$$;

-- Of an agent, for a write that is tried.
create function svc.agent_state(given_key text, agent_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  return (select json_build_object('isQuarantined', a.quarantined_at is not null, 'generation', a.generation::text,
    'rows', svc.agent_rows(a.id)) from svc.agents a where a.id = agent_id);
end $$;

-- The last word before an agent's transaction commits: ok, quarantined, over, spent or ended. Only after `ok` may it commit.
create function svc.agent_commit(
  given_key text, agent_id uuid, given_request text, row_count integer, most integer, is_final boolean, heeds_quarantine boolean,
  given_generation bigint, given_nonce text, pending_id uuid, given_grant uuid, given_api_key uuid, entry jsonb
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  agent svc.agents;
begin
  perform svc.require_log_key(given_key);
  select * into agent from svc.agents a where a.id = agent_id for update;
  if not found then
    return 'ended';
  end if;
  -- A grant that ends waits for this, or this finds it ended.
  perform from svc.oauth_grants g join svc.oauth_clients c on c.id = g.client where g.id = given_grant
    and (g.until is null or g.until > now()) and c.revoked_at is null and g.scope not like 'readonly%' for key share of g;
  if given_grant is not null and not found then
    return 'ended';
  end if;
  perform from svc.api_keys k where k.id = given_api_key and k.revoked_at is null and (k.expires_at is null or k.expires_at > now()) for key share;
  if given_api_key is not null and not found then
    return 'ended';
  end if;
  if pending_id is null then
    if heeds_quarantine and agent.quarantined_at is not null then
      return 'quarantined';
    end if;
    if given_generation is not null and given_generation <> agent.generation then
      return 'ended';
    end if;
    if given_nonce is not null then
      insert into svc.agent_confirmed (nonce, expires_at) values (given_nonce, now() + interval '10 minutes') on conflict do nothing;
      if not found then
        return 'spent';
      end if;
    end if;
    if svc.agent_rows(agent.id) + row_count > most then
      return 'over';
    end if;
  else
    delete from svc.agent_pending p where p.id = pending_id and p.agent = agent_id and p.expires_at > now();
    if not found then
      return 'spent';
    end if;
  end if;
  insert into svc.agent_writes (request_id, agent, rows, by_hand, is_final)
  values (given_request, agent.id, row_count, pending_id is not null, agent_commit.is_final);
  insert into svc.audit_log (actor, action, target, user_id, api_key_id, new_values, ip_address)
  values ('user', entry ->> 'action', entry ->> 'target', agent.user_id, given_api_key, entry -> 'values', entry ->> 'ip');
  return 'ok';
end $$;

-- Rows that this session wrote so far, of each table; and tables that were rewritten or emptied. Partitions count as their table.
create function svc.written_rows(given_key text) returns table (table_oid oid, made bigint, changed bigint, removed bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  return query select coalesce(pg_partition_root(s.relid)::oid, s.relid), sum(s.n_tup_ins)::bigint, sum(s.n_tup_upd)::bigint, sum(s.n_tup_del)::bigint
    from pg_stat_xact_user_tables s where s.schemaname <> 'svc' and s.schemaname not like 'pg\_temp%'
    group by 1;
end $$;

create function svc.locked_tables(given_key text) returns oid[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  return array(select l.relation from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
    where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.mode = 'AccessExclusiveLock' and c.relkind in ('r', 'p')
      and n.nspname <> 'svc' and n.nspname not like 'pg\_temp%' order by 1);
end $$;

-- Columns whose values the database makes: identities, defaults that are new each time, and random or temporal stamps.
create function svc.made_columns(given_key text, targets oid[]) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  return (select coalesce(json_object_agg(t.oid, t.columns), '{}') from (
    select a.attrelid as oid, json_object_agg(a.attname, case
      when a.attidentity <> '' or d.is_new then 'made'
      when ty.typname in ('timestamptz', 'timestamp', 'date', 'time', 'timetz') then 'time'
      when ty.typname = 'uuid' and not exists (select from pg_constraint f where f.conrelid = a.attrelid and f.contype = 'f' and a.attnum = any (f.conkey))
        and not exists (select from pg_policy p join pg_depend e on e.classid = 'pg_policy'::regclass and e.objid = p.oid
          where p.polrelid = a.attrelid and e.refclassid = 'pg_class'::regclass and e.refobjid = a.attrelid and e.refobjsubid = a.attnum) then 'uuid'
      else 'value' end) as columns
    from pg_attribute a join pg_type ty on ty.oid = a.atttypid
    left join lateral (
      select pg_get_expr(b.adbin, b.adrelid) ~* '\m(nextval|gen_random_uuid|uuidv[47]|uuid_generate\w*|random\w*|now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday|current_timestamp|current_date|current_time|localtimestamp|localtime|txid_current|pg_current_xact_id)\M'
        or exists (select from pg_depend e join pg_proc f on f.oid = e.refobjid
          where e.classid = 'pg_attrdef'::regclass and e.objid = b.oid and e.refclassid = 'pg_proc'::regclass and f.provolatile = 'v') as is_new
      from pg_attrdef b where b.adrelid = a.attrelid and b.adnum = a.attnum and a.attgenerated = ''
    ) d on true
    where a.attrelid = any (targets) and a.attnum > 0 and not a.attisdropped group by a.attrelid
  ) t);
end $$;

-- The column by which a policy ties rows to their user, when it is that and more; null for any other rule.
create function svc.owner_column(rule text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  plain text := regexp_replace(replace(replace(rule, '( SELECT svc.uid() AS uid)', 'svc.uid()'), '::text', ''), '[()]', '', 'g');
  part text;
  found text[];
begin
  if plain is null or plain ~* '\m(or|not|case|select|coalesce|any|all|in)\M' then
    return null;
  end if;
  -- Brackets are gone, and with them those of the call.
  foreach part in array regexp_split_to_array(plain, '\s+AND\s+') loop
    found := coalesce(regexp_match(part, '^"?([A-Za-z_][A-Za-z0-9_$]*)"? = svc\.uid$'), regexp_match(part, '^svc\.uid = "?([A-Za-z_][A-Za-z0-9_$]*)"?$'));
    if found is not null then
      return found[1];
    end if;
  end loop;
  return null;
end $$;

-- Whether others than a row's own user may have written what a user reads of a table.
create function svc.written_by_others(target oid) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  relation pg_class;
  owners text[];
begin
  select * into relation from pg_class where oid = target;
  if relation.relkind not in ('r', 'p') then
    return true;
  end if;
  if exists (
    select from pg_proc p join pg_language l on l.oid = p.prolang join pg_namespace n on n.oid = p.pronamespace
    where p.prosecdef and n.nspname not in ('svc', 'pg_catalog', 'information_schema')
      and (p.prorettype = 'trigger'::regtype or has_function_privilege('svc_authenticated', p.oid, 'execute') or has_function_privilege('svc_anon', p.oid, 'execute'))
      and (l.lanname not in ('sql', 'plpgsql') or p.prosrc ~* '\mexecute\M'
        or coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) ~* ('\m(into|update|only|copy)\s+(("[^"]+"|\w+)\s*\.\s*)?"?' || regexp_replace(relation.relname, '\W', '.', 'g') || '"?\M'))
  ) then
    return true;
  end if;
  if not (has_any_column_privilege('svc_authenticated', target, 'insert, update') or has_any_column_privilege('svc_anon', target, 'insert, update')) then
    return false;
  end if;
  if not relation.relrowsecurity then
    return true;
  end if;
  select array_agg(distinct coalesce(case when p.polcmd = 'r' then svc.owner_column(pg_get_expr(p.polqual, target))
      when p.polcmd = 'a' then svc.owner_column(pg_get_expr(p.polwithcheck, target))
      else svc.owner_column(pg_get_expr(coalesce(p.polwithcheck, p.polqual), target)) end, ''))
    || array_agg(distinct case when p.polcmd = '*' then coalesce(svc.owner_column(pg_get_expr(p.polqual, target)), '') end)
  into owners from pg_policy p where p.polrelid = target and p.polpermissive and p.polcmd <> 'd';
  return (select count(distinct o) <> 1
      or bool_or(not exists (select from pg_attribute a where a.attrelid = target and a.attname = o and a.attnum > 0))
    from unnest(owners) as o where o is not null);
end $$;

-- The first id of a log that was never written is its last value too.
create or replace function svc.begin_dry_run(given_key text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  return (select case when is_called then last_value else last_value - 1 end from svc.change_log_id_seq);
end $$;
