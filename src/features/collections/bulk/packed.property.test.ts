import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../../test/kit/kit.ts'
import { poolOn } from '../../../../test/kit/pool.ts'
import { ChangeLog } from '../../../db/changes/log.ts'
import { openConnection } from '../../../db/protocol/driver.ts'

/** Rows of a large import that the log keeps one by one; see import.ts. */
const SINGLE = 2000
const PACKED = 1300

test('many rows in one entry of the log tell the same events as an entry for each', async () => {
  const api = await startServer()
  await api.sql(`
    create type mood as enum ('sad', 'very glad');
    create table zoo (id int, part text default 'x', t text, c char(4), v varchar(9), n numeric, k numeric(8, 2), big bigint,
      f float8, g float4, b bool, d date, ti time, tt timetz, ts timestamp, tz timestamptz, u uuid, jb jsonb, arr text[],
      grid int[], m mood, by bytea, iv interval, "odd ""name" int default 7, doubled int generated always as (id * 2) stored,
      primary key (part, id));
    create function pick(variadic text[]) returns text language sql volatile as
      $$ select v from unnest($1 || null::text) v order by random() limit 1 $$;
    insert into zoo (id, t, c, v, n, k, big, f, g, b, d, ti, tt, ts, tz, u, jb, arr, grid, m, by, iv)
    select n, pick('', ' x ', 'a,b', 'say "hi"', e'two\\r\\nlines', 'é€😀', 'null', '\\N', '{a}', e'\\\\"', repeat('long ', 30)),
      pick('a', 'ab')::char(4), pick('', 'abc')::varchar, pick('1.10', '-0.000001', '123456789012345678901234567890.5', 'NaN')::numeric,
      pick('1.1', '-0.05')::numeric, pick('9223372036854775807', '-1')::bigint,
      pick('0.1', '1e300', '-0', 'Infinity', 'NaN')::float8, pick('0.1', '1e30')::float4, pick('t', 'f')::bool,
      pick('2026-01-02', '0044-03-15 BC')::date, pick('03:04:05.000001')::time, pick('03:04:05+02')::timetz,
      pick('2026-01-02 03:04:05.678', 'infinity')::timestamp, pick('2026-01-02 03:04:05.678901+02', '-infinity')::timestamptz,
      pick('00000000-0000-0000-0000-00000000000a')::uuid, pick('{"a": {"b": [null]}}', '"q\\"uote"', '3', 'null', '1.50')::jsonb,
      pick('{}', '{a,"b c",NULL}', '{"x,y","\\"q\\""}')::text[], pick('{{1,2},{3,4}}', '{7}')::int[],
      pick('sad', 'very glad')::mood, pick('\\x00ff', '\\x')::bytea, pick('1 day 02:03:04', '-1 mon')::interval
    from generate_series(1, ${SINGLE + PACKED}) n;
    create table packed (like zoo including all);
    create table single (like zoo including all);`)
  const shown = 'id,t,c,v,n,k,big,f,g,b,d,ti,tt,ts,tz,u,jb,arr,grid,m,by,iv,doubled'
  for (const fields of [shown, shown.replace(',arr,grid', '')]) {
    await api.sql('truncate packed, single, svc.change_log, svc.change_packs')
    const csv = async (filter: string) =>
      (await api.call(`GET /api/collections/zoo/export.csv?sort=id&fields=${fields}&filter=${filter}`)).text
    const put = async (table: string, body: string) => {
      const headers = { 'content-type': 'text/csv' }
      const answer = await api.call(`POST /api/collections/${table as 'packed'}/import`, { body, headers })
      assert.equal(answer.status, 200, answer.text)
    }
    await put('packed', await csv('id>0'))
    const [{ entries }] = (await api.sql(`select count(*)::int as entries from svc.change_log`)) as [
      { entries: number },
    ]
    assert.ok(Number(entries) < SINGLE + PACKED, 'nothing was packed')
    await put('single', await csv(`id<=${SINGLE}`))
    await put('single', await csv(`id>${SINGLE}`))

    const db = await poolOn(api.databaseUrl)
    const log = new ChangeLog({ db, observe: () => {}, retentionSeconds: 3600, key: '' })
    await log.start()
    type Event = { action: string; pk: string; record: string }
    let events: Record<string, Event[]> = {}
    await eventually(
      async () => {
        await log.head()
        events = { packed: [], single: [] }
        for (let from = '0-0', page = await log.read(from); page.length > 0; page = await log.read(from)) {
          for (const { name, action, pk, record } of page) {
            events[name]?.push({ action, pk, record: String(record) })
          }
          from = page.at(-1)?.position ?? ''
        }
        assert.equal(events['packed']?.length, SINGLE + PACKED)
        assert.equal(events['single']?.length, SINGLE + PACKED)
      },
      { seconds: 60 },
    )
    await log.stop()
    await db.stop()
    // Equal as JSON, to the last digit: an entry of its own is told as it was logged, with other spaces and another order of columns.
    const client = await openConnection({ url: api.databaseUrl })
    const equal = async (of: Event[] = []) => {
      const records = of.map(({ record }) => record)
      const { rows } = await client.query<{ record: string }>(
        'select t::jsonb::text as record from unnest($1::text[]) with ordinality as u(t, n) order by n',
        [records],
      )
      return of.map((event, i) => ({ ...event, ...rows[i] }))
    }
    assert.deepEqual(await equal(events['packed']), await equal(events['single']))
    await client.end()
    assert.deepEqual(await api.sql('select from packed p join single s using (part, id) where p::text <> s::text'), [])
  }
})
