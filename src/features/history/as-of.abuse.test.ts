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
  assert.deepEqual(await refused(`as_of=${at}&search=x`), [400, 'as_of does not go with "search"'])
  assert.deepEqual(await refused(`as_of=${at}&expand=x`), [400, 'as_of does not go with "expand"'])
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
