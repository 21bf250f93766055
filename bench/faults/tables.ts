/** What the storm goes on over. */
export const STORM_TABLES = `
  create table public.notes (id int primary key, label text not null, n int not null default 0);
  insert into public.notes select i, 'note ' || i, i from generate_series(1, 10000) i;
  create table public.journal (id text primary key, n int not null);
  insert into public.journal select 'kept ' || i, i from generate_series(1, 10000) i; -- plans for an empty table would stay
  create table public.lines (id bigint generated always as identity primary key, body text);
  create table public.large (id int primary key, n int not null default 0, body text not null);
  insert into public.large
    select i, 0, (select string_agg(md5((i * k)::text), '') from generate_series(1, 28125) k) from generate_series(1, 20) i;
  create function public.slow(seconds float8) returns void language sql as 'select pg_sleep(seconds)';
  create function public.wait_a_little(n int) returns int language plpgsql stable as
    $$ begin perform pg_sleep(0.4); return n; end $$;
  create view public.heavy as select id, label, public.wait_a_little(n) as n from public.notes where id <= 40;

  create table public.authors (id int primary key, name text not null);
  create table public.posts (id int primary key, author_id int not null references public.authors, body text not null);
  create index on public.posts (author_id);
  insert into public.authors select i, 'author ' || i from generate_series(1, 20) i;
  insert into public.posts select i, 1 + i % 20, repeat('word ', 40) from generate_series(1, 4000) i;

  -- A table whose policy is slow for one account alone.
  create table public.guarded (id bigint generated always as identity primary key, body text);
  create function public.may_see() returns boolean language plpgsql stable as $$
    begin if svc.email() = 'attacker@x.test' then perform pg_sleep(0.01); end if; return true; end $$;
  alter table public.guarded enable row level security;
  create policy slow on public.guarded for select using (public.may_see());
  create policy make on public.guarded for insert with check (true);

  insert into svc.blobs (id, size, sha256) values ('00000000-0000-4000-8000-000000000001', 0, '');
  insert into svc.objects (bucket, name, content_type, blob_id, size, sha256)
    select 'crowded', n, 'text/plain', '00000000-0000-4000-8000-000000000001', 0, ''
    from (select lpad(i::text, 8, '0') as n from generate_series(1, 50000) i) names`
