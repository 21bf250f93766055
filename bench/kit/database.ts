import { startApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config/config.ts'
import { openConnection } from '../../src/db/protocol/driver.ts'

const overrides = (url: string) => ({
  'database.url': url,
  'server.port': 0,
  'admin.password': 'bench',
  'log.level': 'error',
  'auth.token_duration': '12h',
  'rate_limit.register': 'off',
})

async function withServer<T>(url: string, work: (base: string) => Promise<T>): Promise<T> {
  const { config } = loadConfig({ overrides: overrides(url) })
  const app = await startApp(config, { observe: () => {} })
  try {
    return await work(app.url)
  } finally {
    await app.close()
  }
}

export type BenchUser = { readonly id: string; readonly token: string }

const register = async (base: string, email: string): Promise<BenchUser> => {
  const answer = await fetch(`${base}/api/auth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email, password: 'long enough password' }),
  })
  const { token, user } = (await answer.json()) as { token: string; user: { id: string } }
  return { id: user.id, token }
}

/** 100,000 notes under an owner policy, of which each user owns one in a hundred, and the same as posts for everyone. */
export async function seed(
  url: string,
  count = 1,
): Promise<{ token: string; noteId: number; users: readonly BenchUser[] }> {
  return withServer(url, async (base) => {
    const users: BenchUser[] = []
    for (let i = 0; i < count; i++) users.push(await register(base, `bench${i}@example.com`))
    const client = await openConnection({ url })
    const owners = users.map(({ id }) => `'${id}'`).join(',')
    await client.query(
      `
      create table public.projects (id int primary key, name text not null);
      insert into public.projects select i, 'project ' || i from generate_series(1, 100) i;
      create table public.notes (
        id int primary key, owner uuid not null, project_id int references public.projects, title text not null,
        body text, done boolean not null default false, created timestamptz not null default now());
      insert into public.notes
        select i, coalesce((array[${owners}]::uuid[])[i % 100 + 1], gen_random_uuid()), i % 100 + 1, 'note ' || i,
               repeat(md5(i::text), 4), i % 3 = 0
        from generate_series(1, 100000) i;
      create index on public.notes (owner, id);
      alter table public.notes enable row level security;
      create policy own on public.notes using (owner = svc.uid());
      create table public.posts as select * from public.notes;
      alter table public.posts add primary key (id), add foreign key (project_id) references public.projects;
      create table public.imports (
        id bigint generated always as identity primary key, owner uuid not null, project_id int, title text not null,
        done boolean not null default false, created timestamptz not null default now());
      create index on public.imports (owner, id);
      alter table public.imports enable row level security;
      create policy own on public.imports using (owner = svc.uid());
      create table public.pairs (
        id bigint generated always as identity primary key, owner uuid not null default svc.uid(), label text, n int);
      alter table public.pairs enable row level security;
      create policy own on public.pairs using (owner = svc.uid());
      create function public.add(a int, b int) returns int language sql immutable as 'select a + b';
      create function public.add_anew(a int, b int) returns int language plpgsql as 'begin return a + b; end'`,
    )
    await client.query('vacuum analyze public.notes')
    await client.query('vacuum analyze public.posts')
    await client.end()
    return { token: users[0]?.token ?? '', noteId: 5000, users }
  })
}
