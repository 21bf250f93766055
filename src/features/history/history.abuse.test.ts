import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { withoutVirtualColumns } from '../../../test/kit/cluster.ts'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
let ana: SignedUp
let bo: SignedUp
before(async () => {
  api = await startServer()
  ana = await api.signUp('ana@x.test')
  bo = await api.signUp('bo@x.test')
  await api.sql(`
    create table notes (id int primary key, owner uuid, title text, secret text);
    create table pairs (a int, b text, n int, primary key (a, b));
    create table hidden (id int primary key);
    create table people (id int primary key, boss int);
    revoke all on hidden from svc_authenticated, svc_anon;
    alter table notes enable row level security;
    create policy own on notes using (owner::text = current_setting('svc.user_id', true));
    revoke select on notes from svc_authenticated;
    grant select (id, owner, title) on notes to svc_authenticated;
    create function leads(id int) returns boolean language sql stable security definer as
      $$ select exists (select from people p where p.id = leads.id) $$;
    alter table people enable row level security;
    create policy team on people using (leads(boss));
    select svc.watch('notes'), svc.watch('pairs'), svc.watch('people')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/people')).status, 200))
})

type Change = { id: string; action: string; actor: unknown; changes: Record<string, unknown>; request_id: string }
const history = (table: string, id: string, as?: string) =>
  api.call(`GET /api/collections/${table}/${id}/history`, as === undefined ? {} : { as })
const refused = async (table: string, id: string, as?: string) => {
  const { status, body } = await history(table, id, as)
  return [status, body.message]
}

test('the admin alone reads history until a table is opened', async () => {
  await api.sql('insert into notes values (1, $1, $2, $3)', [ana.user.id, 'first', 's'])
  await api.call('PATCH /api/collections/notes/1', {
    as: ana.token,
    json: { title: 'second' },
    headers: { 'x-request-id': 'request-7' },
  })
  const { status, body } = await history('notes', '1', 'admin')
  assert.equal(status, 200)
  assert.deepEqual(
    body.items.map(({ action, changes, request_id: request }: Change) => [action, request, changes]),
    [
      ['update', 'request-7', { title: { old: 'first', new: 'second' } }],
      [
        'create',
        null,
        {
          id: { old: null, new: 1 },
          owner: { old: null, new: ana.user.id },
          title: { old: null, new: 'first' },
          secret: { old: null, new: 's' },
        },
      ],
    ],
  )
  assert.deepEqual(body.items[0].actor, { kind: 'user', id: ana.user.id })
  assert.deepEqual([body.items[0].table, body.items[0].key], ['notes', 1])
  assert.deepEqual(await refused('notes', '1', ana.token), [404, 'history is not open'])
  assert.deepEqual(await refused('notes', '1'), [404, 'history is not open'])
  assert.deepEqual(await refused('hidden', '1', ana.token), [404, 'collection not found: hidden'])
  assert.deepEqual(await refused('notes', '99', 'admin'), [404, 'record not found'])
})

test('an opened table shows what policies and column rights of now let a caller see', async () => {
  await api.sql(`select svc.open_history('public.notes')`)
  const { body } = await history('notes', '1', ana.token)
  assert.deepEqual(
    body.items.map(({ changes, actor }: Change) => [changes, actor]),
    [
      [{ title: { old: 'first', new: 'second' } }, { kind: 'user', id: ana.user.id }],
      [{ id: { old: null, new: 1 }, owner: { old: null, new: ana.user.id }, title: { old: null, new: 'first' } }, null],
    ],
  )
  assert.deepEqual(await refused('notes', '1', bo.token), [404, 'record not found'])
  assert.deepEqual(await refused('notes', '98', bo.token), [404, 'record not found'])
  assert.deepEqual(await refused('notes', '1'), [404, 'history is not open'])

  await api.sql('update notes set owner = $1 where id = 1', [bo.user.id])
  const given = await history('notes', '1', bo.token)
  assert.deepEqual(
    given.body.items.map(({ changes }: Change) => changes),
    [{ id: { new: 1 }, owner: { new: bo.user.id }, title: { new: 'second' } }],
  )
  const left = await history('notes', '1', ana.token)
  assert.deepEqual(left.body.items[0].changes, {
    id: { old: 1 },
    owner: { old: ana.user.id },
    title: { old: 'second' },
  })

  await api.sql(`select svc.open_history('public.notes', actor => true)`)
  assert.deepEqual((await history('notes', '1', ana.token)).body.items[0].actor?.kind, 'system')
  await api.sql(`select svc.close_history('public.notes')`)
  assert.deepEqual(await refused('notes', '1', ana.token), [404, 'history is not open'])
})

test('a column of the same name made later opens nothing, and a renamed one is followed', async () => {
  await api.sql(`
    select svc.open_history('notes');
    insert into notes values (2, '${ana.user.id}', 'a', 'the secret');
    alter table notes drop secret; alter table notes add secret text; alter table notes rename title to headline;
    grant select (secret) on notes to svc_authenticated`)
  await eventually(async () => {
    const { body, text } = await history('notes', '2', ana.token)
    assert.deepEqual(body.items[0]?.changes.headline, { old: null, new: 'a' })
    assert.ok(!text.includes('the secret'))
  })
  assert.ok((await history('notes', '1', 'admin')).body.items.length >= 3)
})

test('policies over virtual columns judge images by the values that reads have, however they were logged', {
  skip: withoutVirtualColumns,
}, async () => {
  await api.sql(`
    create domain present as int not null;
    create table slips (id int primary key, body text, level int, pages present default 1, hidden bool generated always as (body like 'secret%'),
      label varchar(9) generated always as (upper(body)));
    alter table slips enable row level security;
    create policy readable on slips for select using (hidden is not true);
    select svc.watch('slips'), svc.open_history('slips')`)
  const made = { as: 'admin', json: { id: 1, body: 'secret' } }
  await eventually(async () => assert.equal((await api.call('POST /api/collections/slips', made)).status, 201))
  await api.call('PATCH /api/collections/slips/1', { as: 'admin', json: { level: 1 } })
  await api.sql(`insert into slips values (2, 'open')`)
  const at = async () =>
    (await api.sql(`select xid::text || '-' || id as at from svc.changes order by id desc limit 1`))[0].at
  const secret = await at()
  await api.sql(`update slips set level = 2 where id = 2; update slips set body = 'told', level = 2 where id = 1`)
  const shown = async () => {
    const { body } = await history('slips', '1', ana.token)
    const before = await api.call(`GET /api/collections/slips?as_of=${secret}`, { as: ana.token })
    const found = await api.call(`GET /api/collections/slips?as_of=${secret}&filter=hidden%3Dtrue`, { as: 'admin' })
    const ids = (items: { id: number }[] = []): number[] => items.map(({ id }) => id)
    return [body.items.map(({ changes }: Change) => changes), ids(before.body.items), ids(found.body.items)]
  }
  const told = { id: { new: 1 }, body: { new: 'told' }, level: { new: 2 }, pages: { new: 1 } }
  const asNow = [[{ ...told, hidden: { new: false }, label: { new: 'TOLD' } }], [2], [1]]
  assert.deepEqual(await shown(), asNow)
  const { body } = await history('slips', '1', 'admin')
  assert.deepEqual(
    body.items.map(({ changes }: Change) => changes['hidden']),
    [{ old: true, new: false }, undefined, { old: null, new: true }],
  )

  const relog = (image: string) =>
    api.sql(`update svc.change_log set record = (record::jsonb ${image})::json, old_record = (old_record::jsonb ${image})::json
      where table_oid = 'slips'::regclass`)
  await relog(`|| '{"hidden": null, "label": null}'`)
  assert.deepEqual(await shown(), [[{ ...told, hidden: { new: null }, label: { new: null } }], [2], [1]])
  await relog(`- array['hidden', 'label']`)
  assert.deepEqual(await shown(), [[told], [2], [1]])

  await api.sql(`alter table slips alter hidden set expression as (coalesce(level, 0) < 2)`)
  await eventually(async () => assert.deepEqual(await shown(), [[told], [], [1, 2]]))
  // Of images that lack what the expression reads nothing is known.
  await api.sql(`alter table slips add rank int default 0; alter table slips alter hidden set expression as (rank > 0)`)
  await eventually(async () => assert.deepEqual(await shown(), [[], [], []]))
})

test('images from before a column of a domain that is NOT NULL are read', async () => {
  await api.sql(`create domain counted as int not null;
    create table leaves (id int primary key, body text); alter table leaves enable row level security;
    create policy readable on leaves for select using (body <> 'secret');
    select svc.watch('leaves'), svc.open_history('leaves')`)
  await api.sql(`insert into leaves values (1, 'a'), (2, 'secret')`)
  const [{ at }] = await api.sql(`select xid::text || '-' || id as at from svc.changes order by id desc limit 1`)
  await api.sql(`update leaves set body = 'b' where id = 1; alter table leaves add pages counted default 7`)
  await eventually(async () => {
    const { body } = await history('leaves', '1', ana.token)
    assert.deepEqual(
      body.items.map(({ changes }: Change) => changes),
      [{ body: { old: 'a', new: 'b' } }, { id: { old: null, new: 1 }, body: { old: null, new: 'a' } }],
    )
    const then = (await api.call(`GET /api/collections/leaves?as_of=${at}`, { as: ana.token })).body
    assert.deepEqual(then.items, [{ id: 1, body: 'a', pages: null }])
  })
})

test('a row is found by its key, whatever type that has, and as it was', async () => {
  await api.sql(`create type spot as (x int, y text);
    create table by_texts (k text[] primary key, n text); create table by_floats (k float8 primary key, n text);
    create table by_spots (k spot primary key, n text); create table by_ints (k int[] primary key, n text);
    select svc.watch('by_texts'), svc.watch('by_floats'), svc.watch('by_spots'), svc.watch('by_ints')`)
  const keys = { by_texts: '{a,b}', by_floats: '1e300', by_spots: '(1,a)', by_ints: '{1,2}' }
  for (const [table, k] of Object.entries(keys)) {
    const row = `collections/${table}/${encodeURIComponent(k)}`
    await eventually(async () =>
      assert.equal(
        (await api.call(`POST /api/collections/${table}`, { as: 'admin', json: { k, n: 'first' } })).status,
        201,
      ),
    )
    const [{ at }] = await api.sql(`select xid::text || '-' || id as at from svc.changes order by id desc limit 1`)
    assert.equal((await api.call(`PATCH /api/${row}`, { as: 'admin', json: { n: 'second' } })).status, 200, table)
    const then = await api.call(`GET /api/${row}?as_of=${at}`, { as: 'admin' })
    assert.equal(then.body.n, 'first', table)
    const { items } = (await api.call(`GET /api/${row}/history`, { as: 'admin' })).body
    assert.equal(items.length, 2, table)
    const undone = await api.call('POST /api/admin/undo', { as: 'admin', json: { changes: [items[0].id] } })
    assert.deepEqual([undone.status, undone.body.conflicts ?? []], [200, []], table)
    assert.equal((await api.call(`GET /api/${row}`, { as: 'admin' })).body.n, 'first')
  }
})

test('policies over columns that are called as in the log, and a table p, are read as of then', async () => {
  await api.sql(`create table p (id int primary key, key text, image text, t text, o oid); alter table p enable row level security;
    create policy readable on p for select using (key <> 'hidden' and image is null and t is not null);
    select svc.watch('p'), svc.open_history('p')`)
  await api.sql(`insert into p values (1, 'shown', null, 'a'), (2, 'hidden', null, 'b')`)
  const [{ at }] = await api.sql(`select xid::text || '-' || id as at from svc.changes order by id desc limit 1`)
  await eventually(async () => {
    const changed = await api.call('PATCH /api/collections/p/1', { as: 'admin', json: { key: 'hidden' } })
    assert.equal(changed.status, 200, JSON.stringify(changed.body))
  })
  const ids = async (query: string) =>
    (await api.call(`GET /api/collections/p${query}`, { as: ana.token })).body.items.map(({ id }: { id: number }) => id)
  assert.deepEqual([await ids(''), await ids(`?as_of=${at}`)], [[], [1]])
  assert.equal((await api.call(`GET /api/collections/p/1?as_of=${at}`, { as: ana.token })).body.key, 'shown')
})

test('a table that was made again has no history', async () => {
  await api.sql(`create table again (id int primary key); select svc.watch('again'); insert into again values (1);
    drop table again; create table again (id int primary key, v text); insert into again values (1, 'x')`)
  await eventually(async () => {
    const { status, body } = await history('again', '1', 'admin')
    assert.deepEqual([status, body.items], [200, []])
  })
})

test('where policies read their own table, images are the admin’s alone', async () => {
  await api.sql(`select svc.open_history('people'); insert into people values (1, 1)`)
  const { status, body } = await history('people', '1', ana.token)
  assert.deepEqual([status, body.items], [200, []])
  await api.sql('delete from people')
  assert.deepEqual(await refused('people', '1', ana.token), [404, 'record not found'])
  assert.equal((await history('people', '1', 'admin')).body.items.length, 2)
})

test('pages go by cursor, and keys of several columns are found', async () => {
  await api.sql(`insert into pairs values (1, 'x,y', 0)`)
  for (let n = 1; n <= 4; n++) await api.sql('update pairs set n = $1', [n])
  const seen: unknown[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { body } = await api.call(`GET /api/collections/pairs/1,x%2Cy/history?perPage=2&cursor=${cursor}`, {
      as: 'admin',
    })
    seen.push(...body.items.map(({ changes }: Change) => (changes['n'] as { new: number }).new))
    cursor = body.nextCursor
  }
  assert.deepEqual(seen, [4, 3, 2, 1, 0])
  const { status } = await api.call('GET /api/collections/pairs/1,x/history?cursor=abc', { as: 'admin' })
  assert.equal(status, 400)
})

test('values that JSON has in another form than PostgreSQL come back: in streams, history, as_of and undo', async () => {
  await api.sql(`create extension if not exists hstore;
    create domain bag as hstore;
    create type packed as (name text, h hstore, js jsonb[], bare bag[]);
    create table packs (id int primary key, owner uuid default svc.uid(), h hstore, hs hstore[], deep hstore[][], bag bag,
      packed packed, many packed[], js jsonb[], jss json[][], sure jsonb not null default 'null', surely json not null default 'null');
    alter table packs enable row level security;
    create policy own on packs using (owner::text = current_setting('svc.user_id', true) and h is not null) with check (true);
    grant all on packs to svc_authenticated;
    select svc.watch('packs'), svc.open_history('public.packs')`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/packs', { as: ana.token })).status, 200),
  )
  const heard = await listenTo(api.url, { token: ana.token, query: { tables: 'packs' } })
  const bag = `hstore(array['a', 'b "\\', ''], array['1', null, E'x\n"\\\\'])`
  await api.sql(
    `insert into packs select 1, $1, h, array[h, null, ''], array[array[h, h], array['', h]], h, row('n', h, js, array[h]::bag[])::packed,
      array[row(null, h, js, null)::packed, null], js, array[array['[1]'::json, '{}'], array['{"a": []}'::json, '[]']]
    from (select ${bag} as h, array['[1, 2]'::jsonb, '[3, "{,}"]', '{"a": null}', '"text"', null] as js) v`,
    [ana.user.id],
  )
  const state = () => api.sql('select packs::text as row from packs')
  const whole = await state()
  const { body: told } = await api.call('GET /api/collections/packs/1', { as: ana.token })
  await eventually(() => assert.deepEqual(heard.changes(), [{ action: 'create', table: 'packs', record: told }]))
  const [{ now }] = await api.sql('select clock_timestamp()::text as now')
  const headers = (id: string) => ({ headers: { 'x-request-id': id } })
  const change = { h: null, hs: null, js: null, packed: null, many: null, sure: { a: 1 }, surely: [] }
  const path = '/api/collections/packs/1'
  assert.equal((await api.call(`PATCH ${path}`, { as: 'admin', json: change, ...headers('emptied') })).status, 200)
  assert.equal((await api.call(`DELETE ${path}`, { as: 'admin', ...headers('taken') })).status, 204)
  await eventually(() => assert.equal(heard.changes().length, 2))
  heard.close()
  const past = await api.call(`GET ${path}?as_of=${encodeURIComponent(now.replace(/\+00$/, 'Z'))}`, { as: ana.token })
  assert.deepEqual([past.status, past.body], [200, told])
  const { body } = await history('packs', '1', ana.token)
  assert.deepEqual(
    body.items.map(({ action }: Change) => action),
    ['update', 'create'],
  )
  for (const id of ['taken', 'emptied']) {
    const back = await api.call('POST /api/admin/undo', { as: 'admin', json: { request_id: id } })
    assert.equal(back.status, 200, back.text)
  }
  assert.deepEqual(await state(), whole)
})

test('the admin searches the whole log', async () => {
  const find = async (query: string) => {
    const { status, body } = await api.call(`GET /api/admin/changes?${query}`, { as: 'admin' })
    assert.equal(status, 200, JSON.stringify(body))
    return body.items as (Change & { table: string; transaction: string })[]
  }
  const [change] = await find('request_id=request-7')
  assert.deepEqual([change?.table, change?.action], ['notes', 'update'])
  assert.equal((await find(`transaction=${change?.transaction}`)).length, 1)
  assert.equal((await find('table=public.pairs')).length, 5)
  assert.equal((await find(`table=pairs&key=${encodeURIComponent('[1,"x,y"]')}`)).length, 5)
  assert.ok((await find(`user=${ana.user.id}`)).length > 0)
  assert.deepEqual(await find('from=2999-01-01'), [])
  assert.deepEqual(await find('to=2001-01-01'), [])
  assert.equal((await api.call('GET /api/admin/changes?from=soon', { as: 'admin' })).status, 400)
  assert.equal((await api.call('GET /api/admin/changes', { as: ana.token })).status, 401)
})

test('status says what is open and how far back it reaches', async () => {
  const { body } = await api.call('GET /api/admin/history', { as: 'admin' })
  const byTable = new Map(body.items.map((item: { table: string }) => [item.table, item]))
  const notes = byTable.get('notes') as { open: boolean; actor: boolean; reaches_back_to: string; bytes: number }
  assert.deepEqual([notes.open, notes.actor], [true, false])
  assert.ok(Date.parse(notes.reaches_back_to) <= Date.now() && notes.bytes > 0)
  assert.equal((byTable.get('pairs') as { open: boolean }).open, false)
})

test('a deleted account leaves no name in the log, and no images of what went with it', async () => {
  await api.sql(`create table cards (id int primary key, owner uuid references svc.users on delete cascade, text text);
    select svc.watch('cards')`)
  const cy = await api.signUp('cy@x.test')
  await eventually(async () => {
    const made = await api.call('POST /api/collections/cards', {
      as: cy.token,
      json: { id: 1, owner: cy.user.id, text: 'private' },
    })
    assert.equal(made.status, 201)
  })
  assert.equal((await api.call('DELETE /api/auth/me', { as: cy.token })).status, 204)
  const logged = () =>
    api.sql(`select actor, record, old_record from svc.changes where table_name = 'cards' order by id`)
  assert.deepEqual(
    (await logged()).map(({ actor }) => JSON.stringify(actor).includes(cy.user.id)),
    [false, false],
  )
  await eventually(async () => {
    await api.app.cleanups['change_log_trim']?.()
    assert.ok(!JSON.stringify(await logged()).includes('private'))
  })
})

test('history.access opens all tables under their policies, or none', async () => {
  const open = await startServer({ on: api, config: { 'history.access': 'policies' } })
  const none = await startServer({ on: api, config: { 'history.access': 'admin' } })
  assert.equal((await open.call('GET /api/collections/pairs/1,x%2Cy/history', { as: ana.token })).status, 200)
  assert.equal((await open.call('GET /api/collections/pairs/1,x%2Cy/history')).status, 404)
  assert.equal((await none.call('GET /api/collections/notes/2/history', { as: ana.token })).status, 404)
  const brief = await startServer({ on: api, config: { 'history.retention': '1s' } })
  await eventually(async () => {
    const { body } = await brief.call('GET /api/admin/changes?table=pairs', { as: 'admin' })
    assert.deepEqual(body.items, [])
  })
})
