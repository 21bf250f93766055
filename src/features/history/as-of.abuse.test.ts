import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
let ana: SignedUp
before(async () => {
  api = await startServer()
  ana = await api.signUp('ana@x.test')
  await api.sql(`
    create table notes (id int primary key, owner uuid, n int, title text);
    create table loose (id int primary key, v text);
    create table large (id int primary key, v text);
    create table pairs (a int, b text, n int, primary key (a, b));
    select svc.watch('notes'), svc.watch('large'), svc.watch('pairs');
    alter table notes enable row level security;
    create policy own on notes using (owner::text = current_setting('svc.user_id', true));
    select svc.open_history('notes')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/pairs')).status, 200))
})

const now = async (): Promise<string> => {
  const [{ at }] = await api.sql(
    `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
  )
  return at
}
const position = async (): Promise<string> => {
  const [{ at }] = await api.sql(`select xid::text || '-' || id as at from svc.changes order by id desc limit 1`)
  return at
}
const list = async (table: string, query: string, as = 'admin') => {
  const { status, body, text } = await api.call(`GET /api/collections/${table}?perPage=500&${query}`, { as })
  assert.equal(status, 200, text)
  return body
}

test('random writes, and every earlier state is read again', async () => {
  let seed = 7
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return seed % below
  }
  await api.sql('insert into notes (id, owner, n) values (0, $1, 0)', [ana.user.id])
  const states: { at: string; position: string; rows: unknown }[] = []
  for (let round = 0; round < 25; round++) {
    for (let i = 0; i <= random(4); i++) {
      const id = random(12)
      const owner = random(2) === 0 ? ana.user.id : null
      const write = [
        () =>
          api.sql('insert into notes values ($1, $2, $3, $4) on conflict (id) do nothing', [
            id,
            owner,
            round,
            `t${round}`,
          ]),
        () => api.sql('update notes set n = $2 where id = $1', [id, round]),
        () => api.sql('delete from notes where id = $1', [id]),
        () =>
          api.sql('update notes set id = $2 where id = $1 and not exists (select from notes where id = $2)', [
            id,
            random(12),
          ]),
      ][random(4)]
      await write?.()
    }
    const rows = (await list('notes', 'sort=id')).items
    states.push({ at: await now(), position: await position(), rows })
    // Transactions have the time of their begin, in microseconds.
    await api.sql('select pg_sleep(0.002)')
  }
  for (const { at, position: point, rows } of states) {
    assert.deepEqual((await list('notes', `sort=id&as_of=${at}`)).items, rows, at)
    assert.deepEqual((await list('notes', `sort=id&as_of=${point}`)).items, rows, point)
    const mine = (rows as { id: number; owner: string; n: number }[]).filter(({ owner }) => owner === ana.user.id)
    const shown = await list('notes', `sort=-id&filter=n>=3&as_of=${at}`, ana.token)
    assert.deepEqual(shown.items, mine.filter(({ n }) => n >= 3).reverse())
    assert.equal(shown.totalItems, shown.items.length)
    const counted = await list('notes', `aggregate=count&as_of=${at}`)
    assert.equal(counted.items[0].count, (rows as unknown[]).length)
  }
})

test('one row as it was, and one that was not there', async () => {
  await api.sql(`insert into pairs values (1, 'x', 1)`)
  const first = await now()
  await api.sql(`update pairs set n = 2; insert into pairs values (2, 'y', 1)`)
  const second = await now()
  await api.sql('delete from pairs')
  const read = (id: string, at: string) => api.call(`GET /api/collections/pairs/${id}?as_of=${at}`, { as: 'admin' })
  assert.deepEqual((await read('1,x', first)).body, { a: 1, b: 'x', n: 1 })
  assert.deepEqual((await read('1,x', second)).body, { a: 1, b: 'x', n: 2 })
  assert.equal((await read('2,y', first)).status, 404)
  assert.equal((await read('2,y', second)).status, 200)
  assert.equal((await read('1,x', await now())).status, 404)
})

test('who may not read history may not read the past', async () => {
  const at = await now()
  const refused = async (line: `GET /${string}`, as?: string) => {
    const { status, body } = await api.call(line, as === undefined ? {} : { as })
    return [status, body.message]
  }
  assert.deepEqual(await refused(`GET /api/collections/notes?as_of=${at}`), [404, 'history is not open'])
  assert.deepEqual(await refused(`GET /api/collections/pairs?as_of=${at}`, ana.token), [404, 'history is not open'])
  assert.deepEqual(await refused(`GET /api/collections/pairs/1,x?as_of=${at}`, ana.token), [404, 'history is not open'])
})

test('what the log does not reach is refused', async () => {
  const refused = async (query: string, table = 'notes') => {
    const { status, body } = await api.call(`GET /api/collections/${table}?${query}`, { as: 'admin' })
    return [status, body.message]
  }
  for (const then of ['2020-01-01T00:00:00Z', '1-1', '99999999-99999999999']) {
    assert.deepEqual(await refused(`as_of=${then}`), [400, `history does not reach back to ${then}`])
  }
  const at = await now()
  assert.deepEqual(await refused(`as_of=${at}`, 'loose'), [400, `history does not reach back to ${at}`])
  assert.deepEqual(await refused('as_of=yesterday'), [400, 'invalid as_of'])
  assert.deepEqual(await refused(`as_of=${at}&nearest=[1]`), [400, 'as_of does not go with "nearest"'])
})

test('expanded rows, paths of filters and searches are those of then', async () => {
  await api.sql(`
    create table authors (id int primary key, name text);
    create table books (id int primary key, author_id int references authors, sequel_id int references books, title text);
    create table secrets (id int primary key, book_id int references books, v text);
    select svc.watch('authors'), svc.watch('books'), svc.watch('secrets'), svc.open_history('authors'), svc.open_history('books');
    grant select on authors, books, secrets to svc_authenticated;
    insert into authors values (1, 'Ana'), (2, 'Bo');
    insert into books values (1, 1, null, 'the old lion'), (2, 2, 1, 'a zebra')`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/secrets', { as: 'admin' })).status, 200),
  )
  const first = await now()
  await api.sql(`update authors set name = 'Cy' where id = 1; update books set author_id = 1, title = 'the lion is gone' where id = 2;
    delete from books where id = 1 and false; update books set title = 'nothing' where id = 1`)
  const second = await now()
  await api.sql('delete from books where id = 2; delete from books; delete from authors')
  type Book = {
    id: number
    title: string
    expand?: { author: { name: string } | null; sequel: { title: string } | null }
  }
  const books = async (query: string, at: string): Promise<Book[]> =>
    (await list('books', `sort=id&as_of=${at}&${query}`, ana.token)).items
  const shown = async (at: string) =>
    (await books('expand=author,sequel', at)).map(({ id, expand }) => [
      id,
      expand?.author?.name ?? null,
      expand?.sequel?.title ?? null,
    ])
  assert.deepEqual(await shown(first), [
    [1, 'Ana', null],
    [2, 'Bo', 'the old lion'],
  ])
  assert.deepEqual(await shown(second), [
    [1, 'Cy', null],
    [2, 'Cy', 'nothing'],
  ])
  assert.deepEqual(await shown(await now()), [])
  const ids = async (query: string, at: string) => (await books(query, at)).map(({ id }) => id)
  assert.deepEqual(await ids(`filter=author.name='Ana'`, first), [1])
  assert.deepEqual(await ids(`filter=author.name='Cy'`, second), [1, 2])
  assert.deepEqual(await ids('search=lion', first), [1])
  assert.deepEqual(await ids('search=lion', second), [2])
  assert.deepEqual(await ids('search=lion&facets=author_id', second), [2])
  const one = await api.call(`GET /api/collections/books/2?as_of=${first}&expand=sequel.author`, { as: ana.token })
  assert.deepEqual(one.body.expand.sequel.expand.author, { id: 1, name: 'Ana' })
  const back = await api.call(`GET /api/collections/authors/1?as_of=${second}&expand=books`, { as: ana.token })
  assert.deepEqual(
    back.body.expand.books.map(({ id }: { id: number }) => id),
    [1, 2],
  )
  // What is not open stays closed, whichever way it is reached.
  for (const query of ['expand=secrets', `filter=secrets.v='x'`]) {
    const closed = await api.call(`GET /api/collections/books?as_of=${first}&${query}`, { as: ana.token })
    assert.deepEqual([closed.status, closed.body.message], [404, 'history is not open'], query)
  }
  const closed = await api.call(`GET /api/collections/books/1?as_of=${first}&expand=secrets`, { as: ana.token })
  assert.deepEqual([closed.status, closed.body.message], [404, 'history is not open'])
})

test('a list reads no more of the log than it may hold', async () => {
  await api.sql(`insert into large select i, repeat('x', 1000000) from generate_series(1, 20) i`)
  const at = await now()
  await api.sql(`update large set v = 'y' where id = 1`)
  assert.equal((await list('large', `as_of=${at}&fields=id`)).items.length, 20)
  await api.sql(`update large set v = 'z'`)
  const { status, body } = await api.call(`GET /api/collections/large?as_of=${at}`, { as: 'admin' })
  assert.deepEqual([status, body.message], [413, 'too much has changed since'])
  assert.equal((await api.call(`GET /api/collections/large/2?as_of=${at}&fields=id`, { as: 'admin' })).status, 200)
})
