import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../../test/kit/kit.ts'

const TYPES = {
  csv: 'text/csv',
  json: 'application/json',
  ndjson: 'application/x-ndjson',
}

test('random rows of every type come back equal: export, import and export again give the same bytes', async () => {
  const api = await startServer()
  await api.sql(`
    create type mood as enum ('sad', 'very glad');
    create type pair as (a int, b text);
    create domain small as int check (value < 1000);
    create table zoo (id int primary key, t text, c char(4), n numeric, big bigint, f float8, b bool, d date, ti time,
      ts timestamp, tz timestamptz, tt timetz, u uuid, j json, jb jsonb, arr text[], grid int[], m mood, p pair, s small, by bytea,
      net inet, iv interval, r int4range, doc xml);
    create function pick(variadic text[]) returns text language sql volatile as
      $$ select v from unnest($1 || null::text) v order by random() limit 1 $$;
    insert into zoo select n, pick('', ' x ', 'a,b', 'say "hi"', e'two\\r\\nlines', '=1+1', 'é€😀', 'null', '\\N', repeat('long ', 300)),
      pick('a', 'ab')::char(4), pick('1.10', '-0.000001', '123456789012345678901234567890.5', 'NaN')::numeric,
      pick('9223372036854775807', '-1')::bigint, pick('0.1', '1e300', '-0', 'Infinity', 'NaN')::float8, pick('t', 'f')::bool,
      pick('2026-01-02', '0044-03-15', '0044-03-15 BC', '12026-01-01', 'infinity')::date, pick('03:04:05.000001', '23:59:59')::time,
      pick('2026-01-02 03:04:05.678', '0044-03-15 01:02:03 BC', 'infinity')::timestamp,
      pick('2026-01-02 03:04:05.678901+02', '0044-03-15 01:02:03.5+00 BC', '12026-01-01 00:00:00+00', '-infinity')::timestamptz,
      pick('03:04:05+02', '03:04:05.1-03:30', '23:59:59-00:00:15')::timetz,
      pick('00000000-0000-0000-0000-00000000000a')::uuid, pick('{"a" :  1}', '[1, "x"]', '"text"', '12.50')::json,
      pick('{"a": {"b": [null]}}', '"q\\"uote"', '3', 'true')::jsonb, pick('{}', '{a,"b c",NULL}', '{"x,y","\\"q\\""}')::text[],
      pick('{{1,2},{3,4}}', '{7}')::int[], pick('sad', 'very glad')::mood, pick('(1,"a,b")', '(,)')::pair, pick('7')::small,
      pick('\\x00ff', '\\x')::bytea, pick('10.0.0.1', '::1/64')::inet, pick('1 day 02:03:04', '-1 mon')::interval,
      pick('[1,5)', 'empty', '(,3)')::int4range, pick('<a>b</a>')::xml
    from generate_series(1, 300) n;
    create table copy (like zoo including all);`)
  for (const [format, type] of Object.entries(TYPES)) {
    await api.sql('truncate copy')
    const first = await api.call(`GET /api/collections/zoo/export.${format as 'csv'}?sort=id`)
    assert.equal(first.status, 200)
    const { status, body } = await api.call('POST /api/collections/copy/import', {
      body: first.text,
      headers: { 'content-type': type },
    })
    assert.deepEqual([status, body], [200, { created: 300, updated: 0, skipped: 0, dry_run: false }], format)
    const second = await api.call(`GET /api/collections/copy/export.${format as 'csv'}?sort=id`)
    assert.equal(second.text, first.text, format)
    const different = await api.sql('select z.id from zoo z join copy k using (id) where z::text <> k::text')
    assert.deepEqual(different, [], format)
  }
  const moments = 'sort=id&fields=d,ti,ts,tz,tt'
  const cells = await api.call(`GET /api/collections/zoo/export.csv?${moments}`)
  const rows = await api.call(`GET /api/collections/zoo/export.json?${moments}`)
  const lines = rows.body.map((row: object) => `${Object.values(row).join()}\r\n`)
  assert.equal(cells.text, `d,ti,ts,tz,tt\r\n${lines.join('')}`, 'moments look the same in CSV and in JSON')
})
