import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import type pg from 'pg'
import { createDatabase, stopClusters } from '../../../test/kit/cluster.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { poolOn } from '../../../test/kit/pool.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Pool } from '../pool/pool.ts'
import { openConnection } from '../protocol/driver.ts'
import { sql } from '../sql.ts'
import { type Change, ChangeLog } from './log.ts'
import { isBefore, type Position } from './position.ts'

const PATIENT = { seconds: 60 }

let drop: () => Promise<void>
let pool: Pool
let client: pg.Client
let key = ''
let log: ChangeLog

before(async () => {
  const database = await createDatabase('embedded')
  drop = database.drop
  const { url } = database
  pool = await poolOn(url, { maxConns: 8 })
  client = await openConnection({ url })
  await client.query(
    'create table public.notes (id int primary key, body text); create table public.seen (id bigint, n int)',
  )
  key = (await client.query<{ key: string }>('select key from svc.log_key')).rows[0]?.key ?? ''
  log = new ChangeLog({ db: pool, observe: () => {}, retentionSeconds: 3600, key })
  await log.start()
})
beforeEach(() => client.query('delete from svc.change_readers; truncate svc.change_log, svc.change_packs'))
after(async () => {
  await log.stop()
  await client.end()
  await pool.stop()
  await drop()
  await stopClusters()
})

/** Rows `first` to `last` in one entry, with bodies of so many characters. */
const pack = (first: number, last: number, characters = 1) =>
  client.query(
    `select svc.append_creates($1, 'public.notes', svc.shape_of('public.notes'), '{"kind":"system"}', 'request', '{id}', 30, count(*),
       json_build_object('id', json_agg(i), 'body', json_agg(repeat('x', $4)))) from generate_series($2::int, $3::int) i`,
    [key, first, last, characters],
  )
const single = (n: number) =>
  client.query(
    `insert into svc.change_log (shape, table_oid, action, key, record)
     select k.id, 'public.notes'::regclass, 'c', '${n}', '{"id": ${n}, "body": "x"}' from svc.keep_shape('public.notes'::regclass) k`,
  )
const entries = async (): Promise<number> =>
  Number((await client.query<{ n: string }>('select count(*) as n from svc.change_log')).rows[0]?.n)
const idOf = ({ pk }: Change): number => (JSON.parse(pk) as { id: number }).id
const range = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i)

/** Page by page, as soon as so many are settled. */
async function readAll(from: Position, count: number): Promise<Change[]> {
  let all: Change[] = []
  await eventually(async () => {
    await log.head()
    all = []
    for (let page = await log.read(from); page.length > 0; page = await log.read(all.at(-1)?.position ?? from)) {
      assert.ok(page.length <= 500)
      all.push(...page)
    }
    assert.equal(all.length, count)
  }, PATIENT)
  return all
}

test('a packed entry is read as its changes, in order, and from each of their points on', async () => {
  const from = await log.head()
  await single(1)
  await pack(2, 700)
  await single(701)
  await pack(702, 703)
  const all = await readAll(from, 703)
  const head = await log.head()
  assert.deepEqual(all.map(idOf), range(1, 703))
  assert.equal(all.at(-1)?.position, head)
  assert.ok(all.every(({ position }, i) => i === 0 || isBefore(all[i - 1]?.position ?? '', position)))
  assert.deepEqual(
    all.map(({ record }) => JSON.parse(String(record))),
    range(1, 703).map((id) => ({ id, body: 'x' })),
  )
  for (const at of [0, 1, 250, 498, 499, 500, 698, 699, 700, 701]) {
    const { position } = all[at] as Change
    assert.equal(await log.isKnown(position), true)
    assert.deepEqual((await readAll(position, 702 - at)).map(idOf), range(at + 2, 703), `from ${at}`)
  }
  const [xid, id] = head.split('-')
  assert.equal(await log.isKnown(`${xid}-${Number(id) + 1}`), false, 'an id of the entry that no change has')
})

test('a durable reader takes each change once, wherever its pages end', async () => {
  log.followDurably('packed', {
    wanted: sql`true`,
    effect: sql`insert into public.seen select id, (pk ->> 'id')::int from batch`,
    onBatch: () => {},
  })
  await eventually(
    async () =>
      assert.equal((await client.query(`select from svc.change_readers where name = 'packed'`)).rows.length, 1),
    PATIENT,
  )
  await single(1)
  for (let first = 2; first < 3000; first += 700) await pack(first, first + 699)
  log.wake()
  const told = () =>
    pool.rows<{ n: number }>(SYSTEM, sql`select n from public.seen order by id`).then((rows) => rows.map(({ n }) => n))
  await eventually(async () => assert.deepEqual(await told(), range(1, 3501)), PATIENT)
})

test('what a durable reader is in the middle of is not trimmed, and goes as a whole behind it', async () => {
  const from = await log.head()
  await pack(1, 100)
  const all = await readAll(from, 100)
  const middle = all[49] as Change
  await client.query(
    `insert into svc.change_readers (name, xid, id) values ('behind', $1, $2)`,
    middle.position.split('-'),
  )
  await client.query(`update svc.change_log set at = now() - interval '2 hours'`)
  await log.trim()
  assert.deepEqual((await readAll(middle.position, 50)).map(idOf), range(51, 100))
  assert.equal(await log.isKnown(middle.position), true)
  assert.ok((await log.lagSeconds()) > 7000)
  const last = all.at(-1) as Change
  await client.query(`update svc.change_readers set id = $1 where name = 'behind'`, [last.position.split('-')[1]])
  await eventually(async () => {
    await log.trim()
    assert.equal(await entries(), 0)
  }, PATIENT)
  assert.equal(await log.isKnown(middle.position), false)
  assert.equal(await log.isKnown(last.position), true)
})

test('a page is no larger than its budget and one entry, and what is too large for an entry has one each', async () => {
  const from = await log.head()
  for (let n = 0; n < 12; n++) await pack(n * 10, n * 10 + 9, 90_000)
  assert.equal(await entries(), 12)
  assert.deepEqual((await readAll(from, 120)).map(idOf), range(0, 119))
  const page = await log.read(from)
  const bytes = page.reduce((sum, { record }) => sum + (record?.length ?? 0), 0)
  assert.ok(bytes > 2 ** 20 && bytes <= 5.5 * 2 ** 20, String(bytes))
  const next = await log.head()
  await pack(1, 20, 90_000)
  assert.equal(await entries(), 12 + 20)
  await pack(21, 1100)
  assert.equal(await entries(), 12 + 20 + 1080)
  assert.deepEqual((await readAll(next, 1100)).map(idOf), range(1, 1100))
})

test('only the server packs', async () => {
  await assert.rejects(
    client.query(`select svc.append_creates('no', 'public.notes', 1, '{}', '', '{id}', 0, 2, '{"id": [1, 2]}')`),
    /only the server writes the change log/,
  )
})
