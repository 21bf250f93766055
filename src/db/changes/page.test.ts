import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { createDatabase, stopClusters } from '../../../test/kit/cluster.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { poolOn } from '../../../test/kit/pool.ts'
import type { Pool } from '../pool/pool.ts'
import { openConnection } from '../protocol/driver.ts'
import { stepOf } from '../protocol/flight.ts'
import { type Change, ChangeLog } from './log.ts'
import { changesAfter } from './sql.ts'

let drop: () => Promise<void>
let pool: Pool
let client: pg.Client
let log: ChangeLog

before(async () => {
  const database = await createDatabase('embedded')
  drop = database.drop
  pool = await poolOn(database.url, { maxConns: 4 })
  client = await openConnection({ url: database.url })
  log = new ChangeLog({ db: pool, observe: () => {}, retentionSeconds: 3600, key: '' })
  await log.start()
  await client.query(`create table public.notes (id int primary key, body text, doc json);
    create table public.pairs (a text, b date, primary key (a, b)); create table public.keyless (v int);
    create table public."Odd "" name" ("Odd "" id" text primary key);
    create table public.gone (id int primary key); create table public.again (id int primary key);
    select svc.watch('notes'), svc.watch('pairs'), svc.watch('keyless'), svc.watch('"Odd "" name"'), svc.watch('gone'), svc.watch('again')`)
})
after(async () => {
  await log.stop()
  await client.end()
  await pool.stop()
  await drop()
  await stopClusters()
})

const parsed = (text: unknown): unknown => (text === null ? null : JSON.parse(String(text)))
const read = async (): Promise<Change[]> => {
  const last = Number((await client.query('select max(id) as id from svc.changes')).rows[0]?.id)
  await eventually(async () => assert.ok(Number((await log.head()).split('-')[1]) >= last))
  return log.read('0-0')
}

test('a page says of each change what svc.changes says, and how its table is called now', async () => {
  await client.query(`insert into notes values (1, E'a\\n"b"', E'{"x":\\n1,"x":2}'), (2, null, null); update notes set id = 3, body = 'c' where id = 1;
    delete from notes where id = 2; insert into pairs values ('x"y', '2020-02-03'); delete from pairs; insert into keyless values (1);
    insert into "Odd "" name" values ('é"'); truncate notes; insert into gone values (1); insert into again values (1);
    drop table gone; drop table again; create table again (id int)`)
  await client.query(`insert into notes values (900, 'forgotten')`)
  await client.query(`update svc.change_log set record = '{}' where key = '900'`)
  await client.query(`insert into notes select i, 'packed' from generate_series(10, 700) i`)
  await client.query('alter table pairs rename to couples')
  const { rows } =
    await client.query(`select c.xid || '-' || c.id as position, c.action, c.table_oid as oid, c.shape::text as shape, c.key,
    c.table_name, c.pk::text as pk, c.record::text as record, round(extract(epoch from c.at) * 1000)::text as at from svc.changes c order by c.id limit 500`)
  const names: Record<string, string[]> = { pairs: ['public', 'couples'], again: ['', 'again'] }
  const page = await read()
  const changes = page.map(({ pk, record, at, ...rest }) => ({
    ...rest,
    ...{ pk: parsed(pk), record: parsed(record), at: String(Math.round(at)) },
  }))
  assert.equal(changes.length, 500)
  assert.deepEqual(
    changes,
    rows.map(({ table_name: name, oid, pk, record, ...rest }) => ({
      ...{ ...rest, oid: Number(oid), pk: parsed(pk), record: parsed(record) },
      ...{ schema: names[name]?.[0] ?? 'public', name: names[name]?.[1] ?? name },
    })),
  )
  const rest = await log.read(page.at(-1)?.position ?? '')
  assert.equal(rest.at(-1)?.pk, '{"id": 700}')
  // An event of a stream is one line.
  assert.ok([...page, ...rest].every(({ pk, record }) => !`${pk}${record}`.includes('\n')))
})

test('a page reads the images of its own changes, however many large ones come after it', async () => {
  const COUNT = 40
  const [{ id: before }] = (await client.query('select max(id) as id from svc.changes')).rows
  const random = `(select string_agg(md5(n || '.' || i), '') from generate_series(1, 16000) i)`
  await client.query(
    `do $$ begin for n in 1001..${1000 + COUNT} loop insert into notes values (n, ${random}); end loop; end $$`,
  )
  const [{ id: last }] = (await client.query('select max(id) as id from svc.changes')).rows
  const page = { changes: 500, bytes: 2 * 2 ** 20 }
  const { text, values } = stepOf(changesAfter({ xid: '0', id: String(before) }, String(last), page))
  const [row] = (await client.query(`explain (analyze, buffers, format json) ${text}`, [...values])).rows
  const plan = row['QUERY PLAN']
  const [{ Plan: root }] = typeof plan === 'string' ? JSON.parse(plan) : plan
  assert.equal(root['Actual Rows'], 5)
  const ofAll = (COUNT * 512_000) / 8192
  const blocks = root['Shared Hit Blocks'] + root['Shared Read Blocks']
  assert.ok(blocks < ofAll, `${blocks} blocks were read, and all images together have ${ofAll}`)
})
