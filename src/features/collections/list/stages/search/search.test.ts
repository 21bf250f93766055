import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutExtensions } from '../../../../../../test/kit/cluster.ts'
import { type Answer, startServer } from '../../../../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`
  create table authors (id int primary key, name text not null);
  create table articles (
    id int primary key, author_id int references authors, title text, body varchar(4000), code char(4),
    kind text, stars int, published boolean, tags text[], extra jsonb
  );
  insert into authors values (1, 'Ana'), (2, 'Bo');
  insert into articles (id, author_id, title, body, code, kind, stars, published) values
    (1, 1, 'Quick brown fox', 'The fox jumps over the lazy dog', 'aa', 'animal', 5, true),
    (2, 1, 'Lazy dogs', 'Dogs sleep all day and dream of a fox', 'bb', 'animal', 3, true),
    (3, 2, 'Databases', 'PostgreSQL stores rows', 'cc', 'tech', 5, false),
    (4, 2, '<script>alert("x")</script> & a fox', null, null, null, null, null),
    (5, 2, 'Foxes, foxes and foxes', 'fox fox fox', 'dd', 'animal', 1, true)`)

type Query = Record<string, string>
const list = (query: Query, table = 'articles') =>
  api.call(`GET /api/collections/${table}?${new URLSearchParams(query)}`)
const ids = ({ status, body }: Answer): number[] => {
  assert.equal(status, 200, JSON.stringify(body))
  return body.items.map(({ id }: { id: number }) => id)
}
const told = ({ status, body }: Answer) => `${status} ${body.message}`

test('words are looked for in all text columns, the best match first', async () => {
  assert.deepEqual(ids(await list({ search: 'fox' })), [5, 1, 2, 4])
  assert.deepEqual(ids(await list({ search: 'FOXES dog' })), [1, 2])
  assert.deepEqual(ids(await list({ search: '"lazy dog"' })), [2, 1])
  assert.deepEqual(ids(await list({ search: 'postgresql or sleep', sort: 'id' })), [2, 3])
  assert.deepEqual(ids(await list({ search: 'fox -dog', sort: '-id' })), [5, 4])
  assert.deepEqual(ids(await list({ search: 'aa' })), [1])
  assert.equal((await list({ search: '   ' })).body.totalItems, 5)
})

test('a search is a list like any other: filter, sort, page, fields, expand and totals', async () => {
  const { body } = await list({
    search: 'fox',
    filter: `author.name = 'Ana'`,
    fields: 'id,title',
    expand: 'author',
    perPage: '1',
    page: '2',
  })
  assert.deepEqual(body, {
    items: [{ id: 2, title: 'Lazy dogs', expand: { author: { id: 1, name: 'Ana' } } }],
    page: 2,
    perPage: 1,
    totalItems: 2,
    totalPages: 2,
  })
  assert.equal((await list({ search: 'fox', skipTotal: 'true' })).body.totalItems, -1)
})

test('similar words are found when asked for, and excluded words exclude similar rows too', async () => {
  assert.deepEqual(ids(await list({ search: 'databse' })), [])
  assert.deepEqual(ids(await list({ search: 'databse', fuzzy: 'true', typo_threshold: '0.5' })), [3])
  assert.deepEqual(ids(await list({ search: 'databse -rows', fuzzy: 'true', typo_threshold: '0.5' })), [])
  assert.deepEqual(ids(await list({ search: 'databse', fuzzy: 'true', typo_threshold: '1' })), [])
  assert.deepEqual(ids(await list({ search: 'fox', fuzzy: 'true', typo_threshold: '1' })).sort(), [1, 2, 4, 5])
  assert.ok((await list({ search: 'quik', fuzzy: 'true' })).body.totalItems >= 1)
  assert.deepEqual(ids(await list({ search: 'fox', fuzzy: 'false' })), [5, 1, 2, 4])
})

test('the threshold itself is not similar enough', async () => {
  await api.sql(`create table words (id int primary key, word text); insert into words values (1, 'word'), (2, 'wort')`)
  const [row] = (await api.sql(`select word_similarity('word', 'wort')::float8 as same`)) as { same: number }[]
  const at = (threshold: number) =>
    list({ search: 'word', fuzzy: 'true', typo_threshold: String(threshold) }, 'words').then(ids)
  assert.deepEqual(await at(row?.same ?? 0), [1])
  assert.deepEqual(await at((row?.same ?? 0) - 0.01), [1, 2])
})

test('facets count typed values over all rows of the list, not of the page', async () => {
  const { body } = await list({ search: 'fox', facets: ' kind, stars,published,kind', perPage: '1' })
  assert.deepEqual(body.facets, {
    kind: [
      { value: 'animal', count: 3 },
      { value: null, count: 1 },
    ],
    stars: [
      { value: 1, count: 1 },
      { value: 3, count: 1 },
      { value: 5, count: 1 },
      { value: null, count: 1 },
    ],
    published: [
      { value: true, count: 3 },
      { value: null, count: 1 },
    ],
  })
  const filtered = await list({ filter: 'stars = 5', facets: 'kind' })
  assert.deepEqual(filtered.body.facets.kind, [
    { value: 'animal', count: 1 },
    { value: 'tech', count: 1 },
  ])
  assert.deepEqual((await list({ filter: 'stars = 99', facets: 'kind' })).body.facets, { kind: [] })
  assert.equal('facets' in (await list({ search: 'fox' })).body, false)
})

test('at most a thousand values of a column are counted', async () => {
  await api.sql(`create table many (id int primary key); insert into many select generate_series(1, 1500)`)
  const { facets } = (await list({ facets: 'id' }, 'many')).body
  assert.equal(facets.id.length, 1000)
  assert.deepEqual(facets.id[0], { value: 1, count: 1 })
})

test('matches are marked in a source that is escaped', async () => {
  const { items } = (await list({ search: 'fox', highlight: 'true', fields: 'id', filter: 'id = 4 or id = 2' })).body
  const [dogs, script] = items
  assert.deepEqual(Object.keys(dogs), ['id', '_highlight', '_highlightResult'])
  assert.match(script._highlight, /^&lt;script&gt;alert\(&quot;x&quot;\)&lt;\/script&gt; &amp; a <b>fox<\/b>/)
  assert.deepEqual(dogs._highlightResult, {
    title: { value: 'Lazy dogs', matchLevel: 'none' },
    body: { value: 'Dogs sleep all day and dream of a <b>fox</b>', matchLevel: 'full' },
    code: { value: 'bb', matchLevel: 'none' },
    kind: { value: 'animal', matchLevel: 'none' },
  })
  assert.deepEqual(script._highlightResult.body, { value: '', matchLevel: 'none' })
  const without = (await list({ highlight: 'true' })).body.items[0]
  assert.equal('_highlight' in without, false)
})

test('of a phrase each word is marked, of exclusions none', async () => {
  const marked = async (search: string): Promise<string[]> => {
    const { items } = (await list({ search, highlight: 'true', fields: 'id', filter: 'id = 2' })).body
    return [items[0]._highlight, items[0]._highlightResult.body.value]
  }
  const both = 'Dogs <b>sleep</b> all <b>day</b> and dream of a fox'
  assert.deepEqual((await marked('"sleep all day" -cat -"quick fox"'))[1], both)
  assert.match((await marked('"sleep all day"'))[0] ?? '', /<b>sleep<\/b> all <b>day<\/b>/)
  assert.deepEqual((await marked('-cat'))[1], 'Dogs sleep all day and dream of a fox')
})

test('many phrases are marked in time, by an older PostgreSQL too', { skip: withoutExtensions }, async () => {
  const older = await startServer({ postgres: 'extensions' })
  await older.sql(`create table pages (id int primary key, text text);
    insert into pages select i, repeat('the quick brown fox company jumped ', 250) from generate_series(1, 5) i`)
  const search = `${'"fox company" or '.repeat(50)}"brown fox"`
  const query = new URLSearchParams({ search, highlight: 'true', fields: 'id' })
  const { items } = (await older.call(`GET /api/collections/pages?${query}`)).body
  assert.equal(items.length, 5)
  assert.match(items[0]._highlight, /<b>brown<\/b> <b>fox<\/b>/)
})

test('of long texts 200,000 characters are searched, matches marked in 100,000, and 10 kB of a column shown', async () => {
  await api.sql(`
    create table books (id int primary key, text text, notes text);
    insert into books values
      (0, repeat('filler ', 14000) || ' needle', null),
      (1, repeat('filler ', 28000) || ' needle', null),
      (2, repeat('filler ', 30000) || ' needle', null),
      (3, (select string_agg(md5(i::text), ' ') from generate_series(1, 6060) i),
          (select string_agg(md5((-i)::text) || '-' || md5((i * 7)::text), ' ') from generate_series(1, 3000) i));
    insert into books select 4 + i, n.text, n.notes from books n, generate_series(0, 1) i where n.id = 3`)
  const { body } = await list({ search: 'needle', highlight: 'true', fields: 'id' }, 'books')
  assert.deepEqual(ids({ status: 200, body } as Answer), [0, 1])
  const [{ _highlight, _highlightResult }, far] = body.items
  assert.match(_highlight, /<b>needle<\/b>/)
  assert.equal(_highlightResult.text.matchLevel, 'full')
  assert.ok(_highlightResult.text.value.length <= 10_240)
  assert.doesNotMatch(far._highlight, /<b>/)
  assert.equal(far._highlightResult.text.matchLevel, 'none')
})

test('a row with more words than PostgreSQL can keep does not end the search of the others', async () => {
  await api.sql(`
    create table long (id int primary key, a text, b text, c text, d text);
    insert into long values (1, 'needle', '', '', '');
    insert into long select 2, x.t[1], x.t[2], x.t[3], x.t[4] from (
      select array_agg(w.t) as t from (
        select k, string_agg(md5(k || 'a' || i) || '-' || md5(k || 'b' || i), ' ') as t
        from generate_series(1, 4) k, generate_series(1, 3000) i group by k) w) x`)
  await assert.rejects(
    api.sql(`select to_tsvector('english', a || ' ' || b || ' ' || c || ' ' || d) from long`),
    /too long for tsvector/,
  )
  assert.deepEqual(ids(await list({ search: 'needle', fields: 'id' }, 'long')), [1])
  const [row] = (await api.sql(`select left(a, 32) as first from long where id = 2`)) as { first: string }[]
  assert.deepEqual(ids(await list({ search: row?.first ?? '', fields: 'id' }, 'long')), [2])
})

test('what cannot be is refused in the words of the contract', async () => {
  await api.sql(`
    create table numbers (id int primary key);
    create table taken (id int primary key, "_highlight" text);`)
  const refusals: [Query, string, string?][] = [
    [{ search: 'x'.repeat(1001) }, 'search term too long'],
    [{ search: ' '.repeat(1001) }, 'search term too long'],
    [{ search: 'x' }, 'search not supported: table has no text columns', 'numbers'],
    [{ search: 'x', fuzzy: 'yes' }, 'fuzzy parameter must be a boolean'],
    [{ fuzzy: 'true' }, 'fuzzy parameter requires non-empty search'],
    [{ search: ' ', fuzzy: 'true' }, 'fuzzy parameter requires non-empty search'],
    [{ search: 'x', typo_threshold: '0.3' }, 'typo_threshold requires fuzzy=true'],
    ...['2', '-0.1', 'x', '', 'NaN', '1e999', '0x0'].map((typo_threshold): [Query, string] => [
      { search: 'x', fuzzy: 'true', typo_threshold },
      'typo_threshold must be a number between 0 and 1',
    ]),
    [{ facets: 'nope' }, 'unknown column "nope" in facets parameter'],
    [{ facets: 'tags' }, 'unsupported facet column "tags" with type "text[]"'],
    [{ facets: 'extra' }, 'unsupported facet column "extra" with type "jsonb"'],
    [{ search: 'x', highlight: 'true' }, 'highlight conflicts with column "_highlight"', 'taken'],
    [{ search: 'x', highlight: '1' }, 'highlight parameter must be a boolean'],
  ]
  for (const [query, message, table] of refusals) assert.equal(told(await list(query, table)), `400 ${message}`)
  assert.deepEqual(ids(await list({ search: '\u{1f98a}'.repeat(1000) })), [])
})

test('hostile terms are refused quickly or find nothing', async () => {
  assert.equal(told(await list({ search: '- '.repeat(500) })), '400 invalid search syntax')
  assert.equal(told(await list({ search: `${'-'.repeat(900)}fox`, fuzzy: 'true' })), '400 invalid search syntax')
  for (const fuzzy of ['false', 'true']) {
    assert.equal(told(await list({ search: 'x'.repeat(50_000), fuzzy })), '400 search term too long')
    assert.equal(told(await list({ search: '"'.repeat(10_000), fuzzy })), '400 search term too long')
    assert.equal(told(await list({ search: '-'.repeat(20_000), fuzzy })), '400 search term too long')
  }
  for (const search of [
    '"'.repeat(1000),
    'the',
    '-',
    '"',
    ':*&|!()',
    '<->',
    `'`,
    '\\',
    '%',
    'or or or',
    'or'.repeat(400),
  ]) {
    for (const fuzzy of ['false', 'true']) {
      const { status, body } = await list({ search, fuzzy, highlight: 'true', facets: 'kind' })
      assert.ok(status === 200 || (status === 400 && body.message === 'invalid search syntax'), `${search} ${status}`)
    }
  }
  assert.deepEqual(ids(await list({ search: 'the' })), [])
  assert.equal((await list({ search: 'a\0b' })).status, 400)
})
