import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`
  create domain words as text;
  create table authors (id text primary key, bio text);
  create table cells (id int primary key, author text references authors, plain text, small varchar(50), fixed char(4), said words,
    data jsonb, old json, bytes bytea, tags text[], n numeric, "_cut" text, "a""b" text);
  insert into authors values (repeat('k', 50), repeat('b', 100));
  insert into cells (id, author, plain, small, fixed, said, data, old, bytes, tags, n, "a""b") values
    (1, repeat('k', 50), repeat('x', 1000000), repeat('y', 20), 'ab', repeat('z', 11), jsonb_build_object('k', repeat('j', 100)),
     '{"a":   1, "b": "0123456789"}', decode(repeat('ff', 100), 'hex'), array[repeat('t', 100)], 12345678901234567890, repeat('q', 11)),
    (2, null, 'short', null, null, '🦁🦁🦁', '{"a":1}', null, '\\x0102', null, null, null)`)
await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table reloaded ()' } })

test('long texts, JSON and bytes are cut and named; keys, numbers and short values stay', async () => {
  for (const more of ['', '&cursor=']) {
    const { status, body, text } = await api.call(`GET /api/collections/cells?cut=10&sort=id${more}`)
    assert.equal(status, 200)
    const [long, short] = body.items
    assert.deepEqual(long._cut, ['author', 'plain', 'small', 'said', 'data', 'old', 'bytes', 'a"b'])
    assert.equal(long.plain, 'x'.repeat(10))
    assert.equal(long.data, '{"k": "jjj')
    assert.equal(long.old, '{"a":   1,')
    assert.equal(long.bytes, '\\xffffffff')
    assert.equal(long.fixed, 'ab  ')
    assert.match(text, /12345678901234567890/)
    assert.deepEqual(short._cut, [])
    assert.deepEqual([short.data, short.said, short.bytes, short.small], [{ a: 1 }, '🦁🦁🦁', '\\x0102', null])
  }
})

test('related rows are cut as well, a key never', async () => {
  const { body } = await api.call('GET /api/collections/cells?cut=10&filter=id=1&fields=id&expand=author')
  const [author] = Object.values<Record<string, string>>(body.items[0].expand)
  assert.ok(author?.['id'])
  assert.equal(author['id'].length, 50)
  assert.deepEqual([author['bio'], author['_cut']], ['b'.repeat(10), ['bio']])
  assert.deepEqual(body.items[0]._cut, [])
})

test('it is for lists: a row and an export are whole', async () => {
  assert.equal((await api.call('GET /api/collections/cells/1?cut=10')).body.plain.length, 1_000_000)
  const csv = await api.call('GET /api/collections/cells/export.csv?cut=10&fields=id,small')
  assert.match(csv.text, /y{20}/)
})

test('a cut is a number that makes sense', async () => {
  for (const cut of ['0', '-1', '1.5', 'x', '1000001', '99999999999', '1;drop table cells']) {
    assert.equal((await api.call(`GET /api/collections/cells?cut=${encodeURIComponent(cut)}`)).status, 400, cut)
  }
})
