import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const open = await startServer()
const sql = (query: string) => open.call('POST /api/admin/sql', { as: 'admin', json: { query } })
await sql(`
  create table board (id int primary key);
  insert into board values (1);
  create table own (id int primary key, owner uuid default svc.uid());
  alter table own enable row level security;
  create policy own on own using (owner = svc.uid());
  create table strict (id int primary key, owner uuid);
  alter table strict enable row level security;
  create policy cast_it on strict using (owner = current_setting('svc.user_id', true)::uuid);
  create function ping() returns int language sql as 'select 1';
  create function whoami() returns json language sql stable
    as $$ select json_build_object('uid', svc.uid(), 'email', svc.email(), 'aal', svc.aal()) $$`)
const reading = await startServer({ on: open, config: { 'api.anonymous': 'read' } })
const closed = await startServer({ on: open, config: { 'api.anonymous': 'none' } })

const MISSING = '401 missing or invalid authorization header'
const told = ({ status, body }: { status: number; body: { message?: string } }) =>
  body.message === undefined ? String(status) : `${status} ${body.message}`

test('callers without a bearer may do what api.anonymous says', async () => {
  const ana = await open.signUp('ana@x.test')
  const lines = [
    ['GET /api/collections/board', {}],
    ['GET /api/schema', {}],
    ['GET /api/storage/files', {}],
    ['POST /api/collections/board', { json: {} }],
    ['POST /api/rpc/ping', { json: {} }],
    ['GET /api/openapi.json', {}],
    ['GET /health', {}],
  ] as const
  for (const [line, options] of lines) {
    const isOpen = line.includes('openapi') || line.includes('health')
    const isWrite = line.startsWith('POST')
    const [all, read, none] = await Promise.all(
      [open, reading, closed].map((api) => api.call(line, options).then(told)),
    )
    assert.notEqual(all, MISSING, line)
    assert.equal(read === MISSING, isWrite, `${line} when visitors read`)
    assert.equal(none === MISSING, !isOpen, `${line} when visitors may nothing`)
    assert.notEqual(told(await closed.call(line, { ...options, as: ana.token })), MISSING, `${line} as a user`)
  }
})

test('a document for visitors who may nothing names no table', async () => {
  const { text } = await closed.call('GET /api/openapi.json')
  assert.ok(!text.includes('/api/collections/board') && !text.includes('/api/rpc/ping'))
})

test('GraphQL reads and writes follow api.anonymous too', async () => {
  const query = { query: '{ board { id } }' }
  const write = { query: 'mutation { delete_board(where: {id: {_eq: 9}}) { affected_rows } }' }
  assert.equal((await reading.call('POST /api/graphql', { json: query })).body.data.board.length, 1)
  assert.match(
    (await reading.call('POST /api/graphql', { json: write })).text,
    /missing or invalid authorization header/,
  )
  assert.equal((await closed.call('POST /api/graphql', { json: query })).status, 401)
})

test('tables that anybody may write are named, while anybody may', async () => {
  const warnings = async (api: typeof open): Promise<string[]> =>
    (await api.call('GET /api/admin/status', { as: 'admin' })).body.warnings ?? []
  assert.ok(
    (await warnings(open)).some((line) => line.startsWith('anybody may write to public.board: no row level security')),
  )
  assert.ok(!(await warnings(reading)).some((line) => line.includes('public.board')))
  const told = () =>
    open.observations
      .filter(({ message }) => message.startsWith('anybody may write'))
      .map(({ attrs }) => attrs?.['tables'])
  assert.deepEqual(told(), ['public.board'])
  await sql('create table other (id int primary key)')
  assert.deepEqual(told(), ['public.board', 'public.other'], 'each once')
})

test('a policy that fails for visitors is named with its remedy', async () => {
  const { warnings } = (await open.call('GET /api/admin/status', { as: 'admin' })).body
  const named = warnings.filter((line: string) => line.startsWith('policy '))
  assert.deepEqual(named, [
    "policy cast_it of public.strict fails for every visitor, because '' is no uuid: write svc.uid() instead of current_setting('svc.user_id')::uuid",
  ])
})

test('a policy that has to ask itself is named with its remedy, and the log says why its requests fail', async () => {
  await sql(`
    create table members (team int, person uuid);
    create policy see on members using (team in (select m.team from members m where m.person = svc.uid()));
    create policy join_few on members for insert with check ((select count(*) from board) < 5);
    create table teams (id int primary key); create table crews (team int, person uuid);
    create policy of_crew on teams using (exists (select from crews c where c.team = id and c.person = svc.uid()));
    create policy of_team on crews for select using (exists (select from teams t where t.id = team));
    create table parts (id int primary key, team int);
    create policy of_teams on parts for select using (exists (select from teams t where t.id = team));
    create table logs (id int primary key, at timestamptz default now());
    create policy read_all on logs for select using (true);
    create policy add_few on logs for insert with check ((select count(*) from logs) < 5);
    create table apart (id int primary key); create table other_part (id int primary key);
    create policy for_visitors on apart for select to svc_anon using (exists (select from other_part));
    create policy for_users on other_part for select to svc_authenticated using (exists (select from apart));
    create table topics (id int primary key, parent int);
    create policy below on topics using (true) with check (parent is null or exists (select from topics t where t.id = parent));
    create table walls (id int primary key); create policy narrow on walls as restrictive using (exists (select from walls));
    create table without_rls (id int primary key); create policy itself on without_rls using (exists (select from without_rls));
    ${['members', 'teams', 'crews', 'parts', 'logs', 'apart', 'other_part', 'topics', 'walls'].map((table) => `alter table ${table} enable row level security`).join(';')}`)
  const { warnings } = (await open.call('GET /api/admin/status', { as: 'admin' })).body
  const remedy = 'ask a SECURITY DEFINER function instead'
  assert.deepEqual(
    warnings.filter((line: string) => line.includes(remedy)),
    [
      `policy below of public.topics fails for all whom it is for, because it reads public.topics: ${remedy}`,
      `policy of_crew of public.teams fails for all whom it is for, because it reads public.crews, whose policies lead back to public.teams: ${remedy}`,
      `policy of_team of public.crews fails for all whom it is for, because it reads public.teams, whose policies lead back to public.crews: ${remedy}`,
      `policy see of public.members fails for all whom it is for, because it reads public.members: ${remedy}`,
    ],
  )
  for (const [table, status] of Object.entries({
    members: 500,
    teams: 500,
    crews: 500,
    logs: 200,
    apart: 200,
    other_part: 200,
    topics: 200,
    walls: 200,
  }))
    assert.equal((await open.call(`GET /api/collections/${table}`)).status, status, table)
  assert.equal((await open.call('POST /api/collections/logs', { json: { id: 1 } })).status, 201)
  assert.equal((await open.call('POST /api/collections/topics', { json: { id: 1 } })).status, 500)
  const said = open.observations
    .filter(({ message }) => message === 'request failed')
    .map(({ attrs }) => String(attrs?.['error']))
  assert.ok(said.some((error) => error.includes('infinite recursion detected in policy for relation "members"')))
})

test('policies know the caller by svc.uid(), which is NULL for visitors', async () => {
  const ana = await open.signUp('bo@x.test')
  assert.deepEqual((await open.call('POST /api/rpc/whoami')).body, { uid: null, email: null, aal: null })
  assert.deepEqual((await open.call('POST /api/rpc/whoami', { as: ana.token })).body, {
    uid: ana.user.id,
    email: 'bo@x.test',
    aal: 'aal1',
  })
  await open.call('POST /api/collections/own', { as: ana.token, json: { id: 1 } })
  assert.equal((await open.call('GET /api/collections/own', { as: ana.token })).body.totalItems, 1)
  assert.equal((await open.call('GET /api/collections/own')).body.totalItems, 0)
})

test('PostgreSQL inlines svc.uid()', async () => {
  const [{ 'QUERY PLAN': plan }] = await open.sql('explain (verbose, format json) select svc.uid()')
  assert.doesNotMatch(JSON.stringify(plan), /svc\.uid/)
})
