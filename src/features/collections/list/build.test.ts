import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testDatabase } from '../../../../test/kit/database.ts'
import { snapshotOf } from '../../../../test/kit/snapshot.ts'
import { ANONYMOUS, asServer, type Identity } from '../../../core/identity.ts'
import { Appender } from '../../../db/changes/append.ts'
import { openConnection } from '../../../db/protocol/driver.ts'
import { SqlCache } from '../../../db/rows/sql-cache.ts'
import { viewerOf } from '../../../db/schema/viewer.ts'
import { Candidates } from '../../../db/search/candidates.ts'
import { groupOperations } from '../batch/operation-groups.ts'
import { parseBatch } from '../batch/parse.ts'
import { groupStatements } from '../batch/statements.ts'
import { columnFinder } from '../write/body.ts'
import { createStatement, deleteStatement, updateStatement } from '../write/statements.ts'
import { listStatement } from './list.ts'

const MEANS = { candidates: new Candidates(''), textSearchConfig: { schema: 'pg_catalog', name: 'english' } }

const { url, atEnd } = await testDatabase()
const client = await openConnection({ url })
atEnd(() => client.end())
await client.query(`
  create table authors (id int primary key, name text);
  create table posts (id int primary key, author_id int references authors, kind int, title varchar(50));
  create table notes (id int primary key, title text, n int);
  insert into authors select i, 'a' || i from generate_series(1, 1000) i;
  insert into posts select i, 1 + i % 1000, i % 1000, 'title ' || i from generate_series(1, 20000) i;
  create index posts_kind on posts (kind);
  create index posts_title on posts (title);
  analyze`)
const schema = await snapshotOf(url)

function placeOf(name: string) {
  const table = schema.tables.get(`public.${name}`)
  assert.ok(table)
  return { schema, table, viewer: viewerOf(ANONYMOUS) }
}

class Counting extends SqlCache {
  made = 0

  override about(...[subject, shape, make]: Parameters<SqlCache['about']>) {
    return super.about(subject, shape, () => {
      this.made++
      return make()
    })
  }
}

test('a list with total, filter and expansion is one statement that walks indexes, also when its plan is kept', async () => {
  const place = placeOf('posts')
  const render = (query: Record<string, string>) =>
    listStatement(new SqlCache(), query, place, MEANS).statement.render()

  const explain = async (query: Record<string, string>): Promise<string> => {
    const { text, values } = render(query)
    await client.query('set plan_cache_mode = force_generic_plan')
    await client.query(`prepare listing as ${text}`)
    const literals = values.map((value) => (Array.isArray(value) ? `'{${value.join()}}'` : `'${String(value)}'`))
    const { rows } = await client.query(`explain execute listing${literals.length > 0 ? `(${literals.join()})` : ''}`)
    await client.query('deallocate listing')
    return rows.map((row) => Object.values(row as object)[0]).join('\n')
  }

  const plain = await explain({ expand: 'author', skipTotal: 'true' })
  assert.match(plain, /Index Scan using posts_pkey/)
  assert.match(plain, /Index Scan using authors_pkey/)
  assert.doesNotMatch(plain, /Sort|Seq Scan/)
  for (const window of [{ perPage: '3' }, { perPage: '37', page: '4' }, { perPage: '500' }]) {
    const walked = await explain({ ...window, sort: '-id', skipTotal: 'true' })
    assert.match(walked, /Index Scan Backward using posts_pkey/, JSON.stringify(window))
    assert.doesNotMatch(walked, /Sort|Seq Scan/, JSON.stringify(window))
  }
  assert.match(await explain({ filter: 'kind=7' }), /posts_kind/)
  assert.match(await explain({ filter: "title='title 7'" }), /posts_title/)
  assert.match(await explain({ filter: 'kind in (1,2,3)' }), /posts_kind/)
  assert.match(await explain({ filter: 'id=7' }), /posts_pkey/)
})

test('values travel as parameters and the text stays the same', () => {
  const place = placeOf('notes')
  const render = (filter: string, page = '1') =>
    listStatement(new SqlCache(), { filter, page }, place, MEANS).statement.render()
  const [one, other] = [render("title='x'"), render("title=''' or 1=1 --'")]
  assert.equal(one.text, other.text)
  assert.ok(other.values.includes("' or 1=1 --"))
  assert.equal(render('id in (1)').text, render('id in (1,2,3)').text)
})

test('pages of every size need few texts', () => {
  const place = placeOf('notes')
  const sqlCache = new SqlCache()
  const texts = new Set<string>()
  for (let perPage = 1; perPage <= 500; perPage++) {
    for (const page of ['1', '2', '77', '99999']) {
      texts.add(listStatement(sqlCache, { perPage: String(perPage), page }, place, MEANS).statement.render().text)
    }
  }
  assert.ok(texts.size <= 32, `${texts.size} texts`)
})

test('lists that differ in their literals share one statement, made once', () => {
  const place = placeOf('notes')
  const known = new Counting()
  const texts = [1, 2, 3].map(
    (n) => listStatement(known, { filter: `id>${n} and title='${n}'` }, place, MEANS).statement.render().text,
  )
  assert.deepEqual([known.made, new Set(texts).size], [1, 1])
  // The same names in another place are another question.
  listStatement(known, { filter: `title='1' and id>1` }, place, MEANS)
  listStatement(known, { filter: `id>1 and title='1'`, sort: '-id' }, place, MEANS)
  listStatement(
    known,
    { filter: `id>1 and title='1'` },
    { ...place, viewer: { role: 'none', allowedTables: [] } },
    MEANS,
  )
  assert.equal(known.made, 4)
})

test('writes of the same columns share one statement, made once, whoever writes what', () => {
  const place = placeOf('notes')
  const columnsOf = columnFinder(place.table)
  const known = new Counting()
  const ana = asServer('ana')
  const written = (body: Record<string, unknown>, who: Identity = ANONYMOUS) => ({
    columns: columnsOf(body),
    body: JSON.stringify(body),
    log: Appender.of('key', who, 'request'),
  })
  const create = (...args: Parameters<typeof written>) => createStatement(known, place, written(...args)).render()
  const [one, other] = [create({ title: 'a', n: 1 }), create({ n: null, nope: true, title: 'b' }, ana)]
  assert.deepEqual([one.text === other.text, known.made], [true, 1])
  assert.ok(one.values.includes('{"title":"a","n":1}') && one.values.includes('{"kind":"anonymous"}'))
  assert.ok(other.values.includes('{"kind":"admin","id":"ana"}') && !other.values.includes('{"kind":"anonymous"}'))
  assert.notEqual(create({ title: 'a' }).text, create({ n: 1 }).text)
  assert.equal(known.made, 3)

  const update = (key: string, body: Record<string, unknown>) =>
    updateStatement(known, place, [key], written(body)).render()
  assert.equal(update('1', { n: 1 }).text, update('2', { n: 'x' }).text)
  assert.ok(update('3', { n: 2 }).values.includes('3'))
  const [first, second] = ['4', '5'].map((key) =>
    deleteStatement(known, place, [key], Appender.of('key', ana, 'request')).render(),
  )
  assert.deepEqual([first?.text === second?.text, second?.values.includes('5'), known.made], [true, true, 5])
})

test('a batch makes a statement for each kind of run, not for each run', () => {
  const place = placeOf('notes')
  const known = new Counting()
  const text = JSON.stringify({
    operations: [1, 2, 3].flatMap((id) => [
      { method: 'create', body: { id, title: 'x' } },
      { method: 'update', id, body: { n: id } },
      { method: 'delete', id },
    ]),
  })
  const runs = groupOperations(parseBatch(place.table, JSON.parse(text), text))
  const statements = runs.flatMap((run) => groupStatements(known, place, run, Appender.of('key', ANONYMOUS, 'request')))
  const texts = statements.map((statement) => statement.render().text)
  assert.deepEqual([texts.length, new Set(texts).size, known.made], [9, 3, 3])
})
