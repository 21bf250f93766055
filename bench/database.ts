import { startApp } from '../src/app.ts'
import { loadConfig } from '../src/config/config.ts'
import { openConnection } from '../src/db/wire/connect.ts'
import { Connection } from '../src/db/wire/connection.ts'
import type { Step } from '../src/db/wire/flight.ts'

export type Capture = {
  /** Identity first, then what the request needs. */
  steps: Step[]
  /** The same as plain SQL, for pgbench. */
  inlined: string[]
}

type Asked = Record<string, { method: string; path: string; token?: string; body?: string }>

const overrides = (url: string) => ({
  'database.url': url,
  'server.port': 0,
  'admin.password': 'bench',
  'log.level': 'error',
  'auth.token_duration': '12h',
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

/** 100,000 notes of 100 owners under an owner policy, and a user who owns one in a hundred. */
export async function seed(url: string): Promise<{ token: string; userId: string; noteId: number }> {
  return withServer(url, async (base) => {
    const answer = await fetch(`${base}/api/auth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: 'bench@example.com', password: 'long enough password' }),
    })
    const { token, user } = (await answer.json()) as { token: string; user: { id: string } }
    const client = await openConnection({ url })
    await client.query(
      `
      create table public.projects (id int primary key, name text not null);
      insert into public.projects select i, 'project ' || i from generate_series(1, 100) i;
      create table public.notes (
        id int primary key, owner uuid not null, project_id int references public.projects, title text not null,
        body text, done boolean not null default false, created timestamptz not null default now());
      insert into public.notes
        select i, case when i % 100 = 0 then '${user.id}'::uuid else gen_random_uuid() end, i % 100 + 1, 'note ' || i,
               repeat(md5(i::text), 4), i % 3 = 0
        from generate_series(1, 100000) i;
      create index on public.notes (owner, id);
      alter table public.notes enable row level security;
      create policy own on public.notes using (owner = nullif(current_setting('svc.user_id', true), '')::uuid);
      create table public.imports (
        id bigint generated always as identity primary key, owner uuid not null, project_id int, title text not null,
        done boolean not null default false, created timestamptz not null default now());
      create index on public.imports (owner, id);
      alter table public.imports enable row level security;
      create policy own on public.imports using (owner = nullif(current_setting('svc.user_id', true), '')::uuid);
      create table public.pairs (id bigint generated always as identity primary key, label text, n int)`,
    )
    await client.query('vacuum analyze public.notes')
    await client.end()
    return { token, userId: user.id, noteId: 5000 }
  })
}

/** What the server really sends for a request, so that the bare handler can send the very same. */
export async function captureSteps<A extends Asked>(url: string, asked: A): Promise<Record<keyof A, Capture>> {
  const send = Connection.prototype.send
  let steps: readonly Step[] = []
  Connection.prototype.send = function (given, ...rest) {
    if (given.some(({ text }) => text.includes('"public".'))) steps = given
    return send.call(this, given, ...rest)
  }
  try {
    return await withServer(url, async (base) => {
      const captured: Record<string, Capture> = {}
      for (const [name, { method, path, token, body }] of Object.entries(asked)) {
        for (let i = 0; i < 2; i++) {
          const answer = await fetch(base + path, {
            method,
            headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
            ...(body && { body }),
          })
          if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status} ${await answer.text()}`)
          await answer.arrayBuffer()
        }
        captured[name] = { steps: [...steps], inlined: steps.map(inline) }
      }
      return captured as Record<keyof A, Capture>
    })
  } finally {
    Connection.prototype.send = send
  }
}

const inline = ({ text, values }: Step): string =>
  `${text.replace(/\$(\d+)/g, (_, n) => {
    const value = values[Number(n) - 1]
    return value === null || value === undefined ? 'null' : `'${value.replaceAll("'", "''")}'`
  })};`.replaceAll('\n', ' ')
