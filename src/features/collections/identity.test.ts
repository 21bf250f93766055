import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const CLIENTS = 64
const MILLISECONDS = 6_000
const LISTS = 100

test('on a pool of two, sixty-four clients of five identities never see each other', async () => {
  const api = await startServer({ config: { 'database.max_conns': 2 } })
  await api.sql(`
    create table notes (id int generated always as identity primary key, owner text not null default current_setting('svc.user_id', true), n int);
    alter table notes enable row level security;
    create policy own on notes using (owner = current_setting('svc.user_id', true));
    insert into notes (owner) values ('');
    create function me() returns text language sql stable as $$ select current_user || ':' || current_setting('svc.user_id', true) $$;
    create function forge(id text) returns void language plpgsql as $$ begin perform set_config('svc.user_id', id, false); end $$;
    create function slow() returns void language sql as 'select pg_sleep(0.05)';
  `)
  const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
  const { body } = await api.call('POST /api/auth/api-keys', { as: bo.token, json: { name: 'k' } })
  const admin = await api.adminToken()
  for (const { token } of [ana, bo]) await api.call('POST /api/collections/notes', { as: token, json: { n: 1 } })
  const people = [
    { as: ana.token, role: 'svc_authenticated', id: ana.user.id },
    { as: bo.token, role: 'svc_authenticated', id: bo.user.id },
    { as: body.key as string, role: 'svc_authenticated', id: bo.user.id },
    { as: undefined, role: 'svc_anon', id: '' },
    { as: admin, role: 'svc_admin_writer', id: '' },
  ] as const

  const deadline = Date.now() + MILLISECONDS
  let seen = 0
  const client = async (number: number) => {
    for (let turn = number; Date.now() < deadline || seen <= LISTS; turn++) {
      const person = people[turn % people.length] ?? people[3]
      const as = person.as === undefined ? {} : { as: person.as }
      switch (turn % 11) {
        case 3: // fails in the database
          await api.call('POST /api/collections/notes', { ...as, json: { n: 'x' } })
          break
        case 5: {
          // goes away in the middle
          const leave = new AbortController()
          const gone = api.call('POST /api/rpc/slow', { ...as, signal: leave.signal }).catch(() => {})
          setTimeout(() => leave.abort(), 5)
          await gone
          break
        }
        case 7: // tries to stay somebody else
          await api.call('POST /api/rpc/forge', { ...as, json: { id: ana.user.id } })
          break
        case 9: {
          const { status, body: who, text } = await api.call('POST /api/rpc/me', as)
          if (status === 200) assert.equal(who, `${person.role}:${person.id}`)
          else assert.equal(status, 503, text)
          break
        }
        default: {
          const { status, body: page, text } = await api.call('GET /api/collections/notes', as)
          assert.ok(status === 200 || status === 503, text)
          if (status === 503 || person.role === 'svc_admin_writer') break
          seen++
          for (const { owner } of page.items) assert.equal(owner, person.id)
        }
      }
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, i) => client(i)))
  const [{ n }] = (await api.sql(
    `select count(*)::int as n from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`,
  )) as [{ n: number }]
  assert.equal(Number(n), 0)
})
