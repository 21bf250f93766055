import assert from 'node:assert/strict'
import { test } from 'node:test'
import { enrollTotp, signInWithTotp } from '../../../test/fakes/authenticator.ts'
import { AGENTS, agentTokens, agentTools, registerAgent } from '../../../test/kit/agents.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../../db/protocol/driver.ts'

const api = await startServer({ config: { ...AGENTS, 'auth.totp_enabled': true } })
await api.sql(`
  create table notes (id bigint generated always as identity primary key, owner uuid not null default svc.uid(), title text,
    n int, meta jsonb, code text default md5(random()::text), made timestamptz default now(), mark uuid, parent bigint references notes on delete cascade);
  alter table notes enable row level security;
  create policy own on notes using (owner = svc.uid());
  create function stamp() returns trigger language plpgsql as $$ begin new.mark := gen_random_uuid(); new.made := clock_timestamp(); return new; end $$;
  create trigger stamp before insert or update on notes for each row execute function stamp();
  create table trace (id bigint generated always as identity primary key, note bigint, what jsonb, at timestamptz default now());
  create function trace_note() returns trigger language plpgsql security definer as $$ begin
    insert into trace (note, what) values (new.id, to_jsonb(new)); return null; end $$;
  create table traced (id int primary key, owner uuid not null default svc.uid(), n int);
  alter table traced enable row level security;
  create policy own on traced using (owner = svc.uid());
  create trigger trace_it after insert or update on traced for each row execute function trace_note();
  create table prices (id int primary key, price int); insert into prices values (1, 10);
  create table orders (id int primary key, owner uuid not null default svc.uid(), price int);
  alter table orders enable row level security;
  create policy own on orders using (owner = svc.uid());
  create function set_price() returns trigger language plpgsql as $$ begin new.price := (select price from prices where id = 1); return new; end $$;
  create trigger set_price before insert on orders for each row execute function set_price();
  create table teams (id int primary key, name text);
  create table members (id int primary key, team int references teams on delete cascade, hidden boolean);
  alter table members enable row level security;
  create policy shown on members for select using (not hidden);
  create function bulk(count int) returns void language sql as 'insert into notes (n) select i from generate_series(1, count) i';
  create function wipe() returns void language sql security definer as 'truncate trace';
  create table pairs (id bigint generated always as identity primary key, owner uuid not null default svc.uid(), n int);
  alter table pairs enable row level security;
  create policy own on pairs using (owner = svc.uid());
  create function twice(a int) returns void language sql as 'insert into pairs (n) values (a)';
  create function twice(a int, b int) returns void language sql security definer as 'insert into pairs (n) values (a), (b)';
  create function once(a int) returns void language sql as 'insert into pairs (n) values (a)';
  create function behind(a int) returns void language plpgsql as $$ begin perform twice(a, a); end $$;
  create function nap() returns int language sql as 'select 1 from pg_sleep(30)';
  grant all on notes, pairs, traced, orders, teams, members to svc_authenticated;
  grant select on prices to svc_authenticated;
  revoke all on trace from svc_authenticated, svc_anon;
  select svc.watch('members'), svc.watch('pairs');
  insert into teams values (1, 'a'), (2, 'b');
  insert into members values (1, 1, false), (2, 1, true);
`)
await eventually(async () => {
  const { body } = await api.call('GET /api/schema', { as: 'admin' })
  assert.ok(body.tables['public.members'] && body.functions['public.nap'])
})
let users = 0
async function newAgent(terms: Parameters<typeof agentTokens>[2] = {}) {
  const user = await api.signUp(`u${++users}@x.test`)
  const tokens = await agentTokens(api, user, terms)
  return { user, tokens, tool: agentTools(api, tokens.access) }
}
const create = (n: number, more: object = {}) => ({ table: 'notes', body: { title: 't', n, ...more } })

test('what the database generates is no other difference', async () => {
  const { tool } = await newAgent()
  for (const n of [1, 2, 3]) {
    const tried = await tool('create', create(n))
    // Others write meanwhile, so identities move on.
    await api.sql(`insert into notes (owner, n) values (gen_random_uuid(), 1)`)
    const done = await tool('create', { ...create(n), confirm: tried.content.confirm })
    assert.equal(done.isError, false, done.text)
    const { id } = done.content.answer
    const change = { table: 'notes', id: String(id), body: { n: n + 10 } }
    const second = await tool('update', change)
    const changed = await tool('update', { ...change, confirm: second.content.confirm })
    assert.equal(changed.isError, false, changed.text)
  }
})

test('a changed value is another difference', async () => {
  const { tool } = await newAgent()
  const order = { table: 'orders', body: { id: 1 } }
  const tried = await tool('create', order)
  assert.equal(tried.content.changes[0].changes.price.new, 10)
  await api.sql('update prices set price = 99')
  const refused = await tool('create', { ...order, confirm: tried.content.confirm })
  assert.equal(refused.content.code, 409)
  assert.equal((await api.sql('select from orders')).length, 0)
  // The token is not spent by a difference that passed.
  await api.sql('update prices set price = 10')
  assert.equal((await tool('create', { ...order, confirm: tried.content.confirm })).isError, false)
})

test('a confirmation raced is done once', async () => {
  const { tool } = await newAgent()
  const tried = await tool('create', create(500))
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => tool('create', { ...create(500), confirm: tried.content.confirm })),
  )
  assert.equal(answers.filter(({ isError }) => !isError).length, 1)
  for (const { isError, content } of answers) if (isError) assert.equal(content.code, 409)
  assert.equal((await api.sql('select from notes where n = 500')).length, 1)
})

test('a confirmation is of one statement, user, client and grant', async () => {
  const { tool, user, tokens } = await newAgent()
  const { tool: stranger } = await newAgent()
  const otherClient = agentTools(
    api,
    (await agentTokens(api, user, { clientId: await registerAgent(api, 'Other') })).access,
  )
  const otherGrant = agentTools(api, (await agentTokens(api, user, { clientId: tokens.clientId })).access)
  const tried = await tool('create', create(600))
  const { confirm } = tried.content
  const refused = [
    await tool('create', { ...create(601), confirm }),
    await tool('create', { ...create(600, { title: 'u' }), confirm }),
    await tool('update', { ...create(600), id: '1', confirm }),
    await tool('call', { function: 'bulk', args: { count: 1 }, confirm }),
    await stranger('create', { ...create(600), confirm }),
    await otherClient('create', { ...create(600), confirm }),
    await otherGrant('create', { ...create(600), confirm }),
    await tool('create', { ...create(600), confirm: `${confirm}x` }),
    await tool('create', { ...create(600), confirm: confirm.replace(/^./, (c: string) => (c === 'f' ? 'e' : 'f')) }),
  ]
  for (const { content, text } of refused) assert.equal(content.code, 409, text)
  assert.equal((await api.sql('select from notes where n in (600, 601)')).length, 0)
  assert.equal((await tool('create', { ...create(600), confirm })).isError, false)
})

test('what is confirmed is what was shown: another form, a changed row or a right withdrawn is refused', async () => {
  const { tool } = await newAgent()
  const tried = await tool('create', create(650, { meta: { a: 1 } }))
  for (const meta of [[['a', 1]], [{}, ['a', 1]], '{"a":1}']) {
    const other = await tool('create', { ...create(650, { meta }), confirm: tried.content.confirm })
    assert.equal(other.content.code, 409, JSON.stringify(meta))
  }
  const done = await tool('create', { ...create(650, { meta: { a: 1 } }), confirm: tried.content.confirm })
  assert.equal(done.isError, false, done.text)
  const change = { table: 'notes', id: String(done.content.answer.id), body: { n: 651 } }
  const stale = await tool('update', change)
  await api.sql(`update notes set n = 652, meta = '[["a", 1]]' where n = 650`)
  assert.equal((await tool('update', { ...change, confirm: stale.content.confirm })).content.code, 409)
  const fresh = await tool('update', change)
  await api.sql('revoke update on notes from svc_authenticated')
  assert.equal((await tool('update', { ...change, confirm: fresh.content.confirm })).isError, true)
  await api.sql('grant update on notes to svc_authenticated')
  assert.equal((await api.sql('select from notes where n = 652')).length, 1)
})

test('a grant or an account that ends during a call commits nothing', async () => {
  for (const end of ['grant', 'account']) {
    const { tool, user } = await newAgent({ auto: 9 })
    const made = await tool('create', create(660))
    const other = await openConnection({ url: api.databaseUrl })
    await other.query('begin')
    await other.query('select from notes where id = $1 for update', [made.content.answer.id])
    const change = { table: 'notes', id: String(made.content.answer.id), body: { n: 661 } }
    const late = tool('update', change).then(({ content }) => content.code)
    await eventually(async () => {
      const waiting = await api.sql(
        `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%notes%'`,
      )
      assert.equal(waiting.length, 1)
    })
    if (end === 'grant') await api.sql('delete from svc.oauth_grants where user_id = $1', [user.user.id])
    else await api.sql('update svc.users set disabled_at = now() where id = $1', [user.user.id])
    await other.query('commit')
    await other.end()
    assert.equal(await late, 409, end)
    assert.equal((await api.sql('select from notes where n = 661')).length, 0)
  }
})

test('what waits for a user is bounded, by number and by bytes, however many agents', async () => {
  const { tool, user } = await newAgent({ release: true })
  await tool('create', create(670))
  const copies = (n: number, changes: string) =>
    api.sql(
      `insert into svc.agent_pending (agent, key_id, tool, args, digest, changes, counts)
        select p.agent, p.key_id, p.tool, p.args, p.digest, ${changes}, p.counts
        from svc.agent_pending p join svc.agents a on a.id = p.agent, generate_series(1, ${n}) where a.user_id = $1`,
      [user.user.id],
    )
  await copies(48, `'[]'`)
  const raced = await Promise.all([671, 672, 673].map((n) => tool('create', create(n))))
  assert.equal(raced.filter(({ content }) => content.pending !== undefined).length, 1)
  await api.sql(`delete from svc.agent_pending where changes = '[]'`)
  await copies(1, `repeat('x', 9000000)`)
  const another = agentTools(
    api,
    (await agentTokens(api, user, { release: true, clientId: await registerAgent(api, 'Another') })).access,
  )
  assert.equal((await another('create', create(674))).content.error, 'limit_reached')
})

test('code of other rights is not undone, whichever overload it is and whatever calls it', async () => {
  const { tool } = await newAgent({ auto: 50 })
  const undo = async (fn: string, args: object) => {
    const { content } = await tool('call', { function: fn, args })
    return (await tool('undo', { request_id: content.request_id })).content
  }
  assert.equal((await undo('twice', { a: 680, b: 681 })).code, 409)
  assert.equal((await undo('behind', { a: 682 })).code, 409)
  assert.ok((await undo('once', { a: 683 })).confirm)
})

test('a grant that ended commits nothing', async () => {
  const { tool, user } = await newAgent()
  const tried = await tool('create', create(700))
  const { body: grants } = await api.call('GET /api/auth/grants', { as: user.token })
  const late = tool('create', { ...create(700), confirm: tried.content.confirm }).catch(() => undefined)
  await api.call(`DELETE /api/auth/grants/${grants[0].id}`, { as: user.token })
  await late
  const after = await tool('create', { ...create(700), confirm: tried.content.confirm }).catch(() => 'refused')
  assert.equal(after, 'refused')
})

test('hidden rows are table and action, hidden tables are other, and all are counted', async () => {
  const { tool } = await newAgent()
  const gone = await tool('delete', { table: 'teams', id: '1' })
  assert.deepEqual(gone.content.counts.members, { create: 0, update: 0, delete: 2 })
  const members = gone.content.changes.filter(({ table }: { table: string }) => table === 'members')
  assert.deepEqual(members.map((change: object) => Object.keys(change).length > 2).sort(), [false, true])
  const traced = await tool('create', { table: 'traced', body: { id: 1 } })
  assert.ok(
    traced.content.changes.some(({ other }: { other?: boolean }) => other === true),
    traced.text,
  )
  assert.ok(!traced.text.includes('trace"'))
  const done = await tool('create', { table: 'traced', body: { id: 1 }, confirm: traced.content.confirm })
  assert.equal(done.isError, false, done.text)
  // Code of others wrote: the whole is not undone, in words that name nothing.
  const undo = await tool('undo', { request_id: done.content.request_id })
  assert.equal(undo.content.code, 409)
  assert.ok(!undo.text.includes('trace '))
})

test('a hundred rows an hour, over all calls and tables; more waits for the user', async () => {
  const { tool, user } = await newAgent()
  const bulk = async (count: number) => {
    const call = { function: 'bulk', args: { count } }
    const tried = await tool('call', call)
    return tried.content.confirm ? tool('call', { ...call, confirm: tried.content.confirm }) : tried
  }
  assert.equal((await bulk(60)).isError, false)
  const over = await bulk(60)
  assert.equal(over.content.reason, 'rows')
  assert.equal((await bulk(40)).content.request_id !== undefined, true)
  assert.equal((await bulk(1)).content.reason, 'rows')
  const approve = await api.call(`POST /api/auth/agents/pending/${over.content.pending}`, {
    as: user.token,
    json: { decision: 'approve' },
  })
  assert.equal(approve.status, 200, approve.text)
  assert.equal((await api.sql('select from notes where owner = $1', [user.user.id])).length, 160)
  // Nor does emptying a table count as nothing.
  assert.equal((await tool('call', { function: 'wipe' })).content.reason, 'rows')
})

test('auto: one step up to its rows, beyond them the user; release: always the user', async () => {
  const { tool } = await newAgent({ auto: 2 })
  assert.match((await tool('create', create(800))).content.request_id, /^mcp_/)
  assert.match((await tool('create', create(801))).content.request_id, /^mcp_/)
  assert.equal((await tool('create', create(802))).content.reason, 'rows')
  const raced = await newAgent({ auto: 3 })
  await Promise.all(Array.from({ length: 9 }, (_, i) => raced.tool('create', create(900 + i))))
  assert.equal((await api.sql('select from notes where owner = $1', [raced.user.user.id])).length, 3)
  const { tool: held } = await newAgent({ release: true })
  assert.equal((await held('create', create(1000))).content.reason, 'release')
})

test('what waits is done only as it was seen, by its own user, once', async () => {
  const { tool, user } = await newAgent({ release: true })
  await api.sql('update prices set price = 10')
  const order = await tool('create', { table: 'orders', body: { id: 50 } })
  const path = `/api/auth/agents/pending/${order.content.pending}` as const
  const decide = (decision: string) => api.call(`POST ${path}`, { as: user.token, json: { decision } })
  assert.equal((await decide('maybe')).status, 400)
  await api.sql('update prices set price = 11')
  assert.equal((await decide('approve')).status, 409)
  await api.sql('update prices set price = 10')
  await api.sql('revoke insert on orders from svc_authenticated')
  await eventually(async () => assert.equal((await decide('approve')).status, 409))
  await api.sql('grant insert on orders to svc_authenticated')
  await eventually(async () => {
    const [once, twice] = await Promise.all([decide('approve'), decide('approve')])
    assert.deepEqual([once.status, twice.status].filter((status) => status === 200).length, 1, once.text + twice.text)
  })
  assert.equal((await api.sql('select from orders where id = 50')).length, 1)
  const other = await tool('create', { table: 'orders', body: { id: 51 } })
  const denied = await api.call(`POST /api/auth/agents/pending/${other.content.pending}`, {
    as: user.token,
    json: { decision: 'deny' },
  })
  assert.equal(denied.status, 204)
})

test('a user with a second factor releases with it alone, and what waited for a day is gone', async () => {
  const { tool, user } = await newAgent({ release: true })
  const [first, old] = [await tool('create', create(950)), await tool('create', create(951))]
  await api.sql(`update svc.agent_pending set expires_at = now() where id = $1`, [old.content.pending])
  const app = await enrollTotp(api, user.token, user.user.id)
  const { body: agents } = await api.call('GET /api/auth/agents', { as: user.token })
  assert.equal(agents[0].pending.length, 1)
  const decide = (as: string, id: string) =>
    api.call(`POST /api/auth/agents/pending/${id}`, { as, json: { decision: 'approve' } })
  const release = (as: string) => api.call(`POST /api/auth/agents/${agents[0].id}/release`, { as })
  for (const answer of [await decide(user.token, first.content.pending), await release(user.token)]) {
    assert.deepEqual([answer.status, answer.body.error], [403, 'insufficient_aal'])
  }
  const { token } = await signInWithTotp(api, user.user.email, user.user.id, app)
  assert.equal((await decide(token, old.content.pending)).status, 404)
  assert.equal((await decide(token, first.content.pending)).status, 200)
  assert.equal((await release(token)).status, 204)
})

test('undo is of own writes, with the rights of now, and no sent request id is one', async () => {
  const { tool, user, tokens } = await newAgent({ auto: 50 })
  const { tool: stranger } = await newAgent()
  const undo = async (request_id: string) => {
    const tried = await tool('undo', { request_id })
    const { confirm } = tried.content
    return confirm === undefined ? tried : tool('undo', { request_id, confirm })
  }
  const made = await tool('create', create(1100))
  const { request_id: id } = made.content
  assert.equal((await stranger('undo', { request_id: id })).content.code, 404)
  await api.call('POST /api/collections/notes', {
    as: user.token,
    json: { n: 1101 },
    headers: { 'x-request-id': 'mine' },
  })
  assert.equal((await tool('undo', { request_id: 'mine' })).content.code, 404)
  // The same id on a request of another way adds nothing to it.
  await api.call('POST /api/collections/notes', { as: user.token, json: { n: 1102 }, headers: { 'x-request-id': id } })
  const row = String(made.content.answer.id)
  const changed = await tool('update', { table: 'notes', id: row, body: { n: 1103 } })
  assert.equal((await tool('undo', { request_id: id })).content.code, 409, 'it has changed since')
  assert.match((await undo(changed.content.request_id)).content.request_id, /^mcp_/)
  assert.match((await undo(id)).content.request_id ?? '', /^mcp_/)
  assert.deepEqual(await api.sql('select n from notes where owner = $1 order by n', [user.user.id]), [
    { n: '1101' },
    { n: '1102' },
  ])
  // A deleted row comes back with its key; without the right it does not.
  const kept = await tool('create', create(1104))
  const key = String(kept.content.answer.id)
  const gone = await tool('delete', { table: 'notes', id: key })
  await api.sql('revoke insert on notes from svc_authenticated')
  await eventually(async () =>
    assert.equal((await tool('undo', { request_id: gone.content.request_id })).content.code, 409),
  )
  await api.sql('grant insert on notes to svc_authenticated')
  await eventually(async () => assert.ok((await undo(gone.content.request_id)).content.request_id))
  assert.equal((await tool('get', { table: 'notes', id: key })).content.n, 1104)
  assert.ok(tokens.clientId)
})

test('bounds: 200 rows, 64 KiB, five seconds', async () => {
  const { tool, user } = await newAgent()
  await api.sql(`insert into notes (owner, n, title) select $1, i, repeat('x', 10) from generate_series(1, 300) i`, [
    user.user.id,
  ])
  const many = await tool('list', { table: 'notes', perPage: 500 })
  assert.ok(many.content.items.length <= 200)
  await api.sql(`update notes set title = repeat('"long" ', 300) where owner = $1`, [user.user.id])
  const long = await tool('list', { table: 'notes', perPage: 200 })
  assert.ok(long.bytes <= 65_536, String(long.bytes))
  assert.equal(long.content.truncated, true)
  assert.match(long.text, /cut/)
  await api.sql(`update notes set title = repeat('y', 1000000) where n = 1 and owner = $1`, [user.user.id])
  const huge = await tool('list', { table: 'notes', filter: 'n = 1' })
  assert.ok(huge.bytes <= 65_536, String(huge.bytes))
  // One user's calls take turns, on few connections; those of others are not kept waiting.
  const { tool: other } = await newAgent({ auto: 9 })
  const started = Date.now()
  const naps = Promise.all(Array.from({ length: 8 }, () => tool('call', { function: 'nap' }).catch(() => undefined)))
  const asleep = () => api.sql(`select from pg_stat_activity where query like '%nap%' and wait_event = 'PgSleep'`)
  await eventually(async () => assert.equal((await asleep()).length, 2))
  assert.match((await other('create', create(1150))).content.request_id, /^mcp_/)
  assert.equal((await asleep()).length, 2)
  for (const slow of await naps) assert.ok(slow === undefined || slow.isError)
  assert.ok(Date.now() - started < 20_000)
})

test('every call is in the audit trail, refused ones too', async () => {
  const { tool, user } = await newAgent({ auto: 50 })
  await tool('list', { table: 'notes' })
  await tool('list', { table: 'nowhere' })
  const done = await tool('create', create(1200))
  await eventually(async () => {
    const rows = await api.sql(
      `select action, target, new_values ->> 'client' as client, new_values ->> 'rows' as rows,
      new_values ->> 'request_id' as id, new_values ->> 'error' as error from svc.audit_log where user_id = $1 and action like 'agent.%' order by seq`,
      [user.user.id],
    )
    assert.deepEqual(rows.map(({ action }: { action: string }) => action).sort(), [
      'agent.create',
      'agent.list',
      'agent.list',
    ])
    const write = rows.find(({ action }: { action: string }) => action === 'agent.create')
    assert.deepEqual([write.target, write.rows, write.id], ['notes', '1', done.content.request_id])
    assert.ok(rows.some(({ error }: { error: string | null }) => error === 'collection_not_found'))
  })
})
