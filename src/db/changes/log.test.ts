import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import type pg from 'pg'
import { createDatabase, stopClusters } from '../../../test/kit/cluster.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { poolOn } from '../../../test/kit/pool.ts'
import { sleep } from '../../core/clock.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Pool } from '../pool/pool.ts'
import { openConnection } from '../protocol/driver.ts'
import { sql } from '../sql.ts'
import { type Change, ChangeLog } from './log.ts'
import { isBefore } from './position.ts'
import { Settled } from './settled.ts'
import { momentOf, type SettledRow } from './sql.ts'

let url = ''
let drop: () => Promise<void>
let pool: Pool
const clients: pg.Client[] = []
const logs: ChangeLog[] = []

before(async () => {
  ;({ url, drop } = await createDatabase('embedded'))
  pool = await poolOn(url, { maxConns: 8 })
  await pool.run(SYSTEM, [
    sql`create table public.seen (reader text, id bigint)`,
    sql`insert into svc.change_shapes (id, table_oid, schema_name, table_name, columns, key_columns)
      values (1, 0, 'public', 'notes', '[[1, "id", "integer"]]', '{id}')`,
  ])
})
// A log that is left running trims what a later test has made old.
afterEach(() => Promise.all(logs.splice(0).map((log) => log.stop())))
after(async () => {
  await Promise.all(clients.map((client) => client.end()))
  await pool.stop()
  await drop()
  await stopClusters()
})

async function startLog(retentionSeconds = 3600): Promise<ChangeLog> {
  const log = new ChangeLog({ db: pool, observe: () => {}, retentionSeconds, key: '' })
  logs.push(log)
  await log.start()
  return log
}

async function connect(): Promise<pg.Client> {
  const client = await openConnection({ url })
  clients.push(client)
  return client
}

const append = (n: number | string) =>
  `insert into svc.change_log (shape, table_oid, action, key, record) values (1, 0, 'c', '${n}', '{"id": ${n}}')`
const idOf = (change: Change): number => (JSON.parse(change.pk) as { id: number }).id

const until = (isTrue: () => boolean): Promise<void> => eventually(() => assert.ok(isTrue(), 'did not happen in time'))

/** The last change that was committed, settled or not. */
async function endOfLog(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ at: string }>(
    `select xid || '-' || id as at from svc.changes order by id desc limit 1`,
  )
  return rows[0]?.at ?? ''
}

/** Other transactions in the cluster may delay it. */
async function settledHead(log: ChangeLog, client: pg.Client): Promise<string> {
  const end = await endOfLog(client)
  await eventually(async () => assert.equal(await log.head(), end))
  return end
}

/** Each head polls; after some polls the log also checks the transactions of other databases. */
async function lookedOften(log: ChangeLog): Promise<void> {
  for (let looks = 0; looks < 10; looks++) await log.head()
}

async function collect(log: ChangeLog) {
  const from = await log.head()
  const ids: number[] = []
  const positions: string[] = []
  const lost: string[] = []
  const follower = log.follow({
    from,
    onBatch: (changes) => {
      ids.push(...changes.map(idOf))
      positions.push(...changes.map((change) => change.position))
    },
    onLost: (position) => void lost.push(position),
  })
  return { from, ids, positions, lost, follower }
}

test('nothing is skipped while one transaction stays open and a thousand others commit', async () => {
  const log = await startLog()
  const { from, ids, positions, follower } = await collect(log)
  const [slow, quick] = [await connect(), await connect()]

  await slow.query('begin')
  await slow.query(append(-1))
  for (let n = 1; n <= 1_000; n++) await quick.query(append(n))
  log.wake()
  await lookedOften(log)
  assert.deepEqual(await log.read(from), [], 'a change is handed out before an older transaction ended')
  assert.deepEqual(ids, [])
  await slow.query('commit')

  await until(() => ids.length >= 1_001)
  assert.deepEqual(ids, [-1, ...Array.from({ length: 1_000 }, (_, i) => i + 1)])
  assert.ok(positions.every((position, i) => i === 0 || isBefore(positions[i - 1] ?? '', position)))
  await follower.stop()
})

test('a look while two transactions are at work does not let the later one be read before the earlier one', async () => {
  const log = await startLog()
  const [early, late] = [await connect(), await connect()]
  await early.query(append(0))
  const from = await settledHead(log, early)
  // Both have begun after every transaction that has ended.
  for (const [client, n] of [
    [early, 1],
    [late, 2],
  ] as const) {
    await client.query('begin; select pg_current_xact_id()')
    await client.query(append(n))
  }
  await log.head()
  await late.query('commit')
  assert.deepEqual(await log.read(from), [])
  await early.query('commit')
  await settledHead(log, early)
  assert.deepEqual((await log.read(from)).map(idOf), [1, 2])
})

test('a transaction of another database of the cluster holds up nobody for long', async () => {
  const elsewhere = await createDatabase('embedded')
  const other = await openConnection({ url: elsewhere.url })
  await other.query('begin')
  await other.query(append(0)) // in its own log
  const log = await startLog()
  const { ids, positions, follower } = await collect(log)
  const client = await connect()
  for (const n of [1, 2]) await client.query(append(n))
  await until(() => ids.length === 2)
  // One of this database still does, and is delivered in order.
  const slow = await connect()
  await slow.query('begin')
  await slow.query(append(3))
  await client.query(append(4))
  await lookedOften(log)
  assert.deepEqual(await log.read(positions.at(-1) ?? ''), [])
  assert.deepEqual(ids, [1, 2])
  await slow.query('commit')
  await until(() => ids.length === 4)
  assert.deepEqual(ids, [1, 2, 3, 4])
  await follower.stop()
  await other.query('rollback')
  await other.end()
  await elsewhere.drop()
})

test('a log knows its end, while others write elsewhere in the cluster', async () => {
  const client = await connect()
  await client.query(append(1))
  const elsewhere = await createDatabase('embedded')
  const other = await openConnection({ url: elsewhere.url })
  await other.query('begin')
  await other.query(append(0))
  const log = await startLog()
  assert.equal(await log.head(), await endOfLog(client))
  // A new follower gets no earlier changes.
  await client.query(append(2))
  assert.equal(await log.head(), await endOfLog(client))
  await other.end()
  await elsewhere.drop()
})

test('while nothing is settled for a log that has just started, its end is where a durable reader is', async () => {
  const client = await connect()
  await client.query(append(1))
  const end = await endOfLog(client)
  const slow = await connect()
  await slow.query('begin')
  await slow.query(append(2))
  await client.query(`insert into svc.change_readers (name, xid, id) values ('passed', $1, $2)`, end.split('-'))
  await client.query(append(3))
  assert.equal(await (await startLog()).head(), end)
  await slow.query('rollback')
  await client.query(`delete from svc.change_readers where name = 'passed'`)
})

test('a rolled back change is never handed out', async () => {
  const log = await startLog()
  const { ids, follower } = await collect(log)
  const client = await connect()
  await client.query('begin')
  await client.query(append(1))
  await client.query('rollback')
  await client.query(append(2))
  await until(() => ids.length > 0)
  assert.deepEqual(ids, [2])
  await follower.stop()
})

test('another log on the same database hears of a write', async () => {
  const [here, there] = [await startLog(), await startLog()]
  const { ids, follower } = await collect(there)
  await (await connect()).query(append(7))
  here.wake()
  await until(() => ids.includes(7))
  await follower.stop()
})

test('a slow follower does not hold up another', async () => {
  const log = await startLog()
  const from = await log.head()
  let release = (): void => {}
  const stuck = log.follow({ from, onBatch: () => new Promise((resolve) => (release = resolve)), onLost: () => {} })
  const { ids, follower } = await collect(log)
  const client = await connect()
  for (let n = 1; n <= 3; n++) {
    await client.query(append(n))
    log.wake()
    await until(() => ids.length === n)
  }
  release()
  await Promise.all([stuck.stop(), follower.stop()])
})

test('a durable reader acts on each change once, whichever process takes it', async () => {
  const readers = [await startLog(), await startLog()]
  for (const log of readers) {
    log.followDurably('test', {
      wanted: sql`true`,
      effect: sql`insert into public.seen select 'test', (pk ->> 'id')::bigint from batch`,
      onBatch: () => {},
    })
  }
  const client = await connect()
  const readerAt = `select from svc.change_readers where name = 'test'`
  await eventually(async () => assert.equal((await client.query(readerAt)).rowCount, 1))
  await client.query(`insert into svc.change_log (shape, table_oid, action, key, record)
    select 1, 0, 'c', n, json_build_object('id', n) from generate_series(10001, 13000) n`)
  for (const log of readers) log.wake()
  const count = async (): Promise<{ n: number; d: number }> => {
    const { rows } = await client.query<{ n: string; d: string }>(
      `select count(*) n, count(distinct id) d from seen where reader = 'test' and id > 10000`,
    )
    return { n: Number(rows[0]?.n), d: Number(rows[0]?.d) }
  }
  await eventually(async () => assert.equal((await count()).d, 3_000))
  assert.deepEqual(await count(), { n: 3_000, d: 3_000 })
})

test('an unwanted durable reader keeps up without acting', async () => {
  const log = await startLog()
  log.followDurably('idle', {
    wanted: sql`false`,
    effect: sql`insert into public.seen select 'idle', 1 from batch`,
    onBatch: () => {},
  })
  const client = await connect()
  await client.query(append(1))
  const end = await endOfLog(client)
  const position = `select xid || '-' || id as at from svc.change_readers where name = 'idle'`
  await eventually(async () => assert.deepEqual((await client.query(position)).rows, [{ at: end }]))
  const { rows } = await client.query(`select from seen where reader = 'idle'`)
  assert.equal(rows.length, 0)
})

test('what is trimmed is no longer a known position, what came after is', async () => {
  const log = await startLog(3_600)
  const client = await connect()
  await client.query(`delete from svc.change_readers`)
  await client.query(append(1))
  const old = await settledHead(log, client)
  await client.query(append(2))
  const horizon = await settledHead(log, client)
  await client.query(`update svc.change_log set at = now() - interval '2 hours'`)
  await client.query(append(3))
  const recent = await settledHead(log, client)

  assert.equal(await log.isKnown(old), true)
  assert.ok((await log.trim()) >= 2)
  assert.equal(await log.isKnown(old), false)
  assert.equal(await log.isKnown(horizon), true)
  assert.equal(await log.isKnown(recent), true)
  for (const made of ['', 'x', '1-', '99999999999999999999999-1', '1-99999999999999999999', '4000000000-5']) {
    assert.equal(await log.isKnown(made), false, made)
  }
})

test('the log is not trimmed beyond what a durable reader has read', async () => {
  const log = await startLog(3_600)
  const client = await connect()
  const head = (await settledHead(log, client)).split('-')
  await client.query(`insert into svc.change_readers (name, xid, id) values ('behind', $1, $2)`, head)
  await client.query(append(4))
  await client.query(`update svc.change_log set at = now() - interval '2 hours'`)
  await log.trim()
  const { rows } = await client.query(`select pk ->> 'id' as id from svc.changes`)
  assert.deepEqual(rows, [{ id: '4' }])
  await client.query(`delete from svc.change_readers`)
})

test('a process that starts while others write takes none of their changes for a restored one', async () => {
  const write = append(0)
  let writing = true
  const writers = [1, 2, 3, 4].map(async () => {
    const client = await openConnection({ url })
    await client.query('set synchronous_commit = off') // more commits in the same time
    while (writing) await client.query(write)
    await client.end()
  })
  const adopted = new Set<string | null>()
  for (let i = 0; i < 300; i++) adopted.add(await pool.fly(SYSTEM, sql`select svc.adopt_changes()::text`))
  writing = false
  await Promise.all(writers)
  assert.deepEqual([...adopted], ['false'])
})

test('changes of a restored dump are adopted: unread ones are handed out, old positions are unknown', async () => {
  const client = await connect()
  await client.query('delete from svc.change_log')
  const future = '900000000'
  await client.query(`insert into svc.change_readers (name, xid, id) values ('restored', $1, 5)`, [future])
  await client.query(
    `insert into svc.change_log (id, xid, shape, table_oid, action, key, record)
     values (4, $1, 1, 0, 'c', '4', '{"id": 4}'), (6, $1, 1, 0, 'c', '6', '{"id": 6}')`,
    [future],
  )
  const log = await startLog()
  assert.equal(await log.isKnown(`${future}-4`), false)
  const { rows } = await client.query(
    `select c.pk ->> 'id' as id from svc.changes c, svc.change_readers r where r.name = 'restored' and (c.xid, c.id) > (r.xid, r.id)`,
  )
  assert.deepEqual(rows, [{ id: '6' }])
})

test('a look takes a transaction number only when the log has grown', async () => {
  await (await connect()).query(append(1))
  const look = async (known?: bigint) => {
    const [moment] = await pool.rows<SettledRow>(SYSTEM, momentOf({ known, careful: false }))
    return moment
  }
  const grown = await look()
  assert.ok(grown?.bound)
  const quiet = await look(BigInt(grown.last))
  assert.deepEqual([quiet?.last, quiet?.bound], [grown.last, null])
})

test('the lag is the age of the oldest unread change', async () => {
  const log = await startLog()
  const client = await connect()
  await client.query(`update svc.change_log set at = now() - interval '90 seconds'`)
  const lag = await log.lagSeconds()
  assert.ok(lag >= 90 && lag < 1_000, String(lag))
})

test('while nobody reads the log, writes do not make the server look at it', async (t) => {
  const log = await startLog()
  await log.head()
  const looked = t.mock.method(Settled.prototype, 'look')
  const write = async () => {
    await pool.run(
      SYSTEM,
      sql`insert into svc.change_log (shape, table_oid, action, record) values (1, 0, 'c', '{"id": 1}')`,
    )
    log.wake()
  }
  for (let i = 0; i < 60; i++) {
    await write()
    await sleep(10) // longer than a poll
  }
  assert.ok(looked.mock.callCount() < 30, `${looked.mock.callCount()} looks for 60 writes`)

  const heard: Change[] = []
  log.follow({ from: await log.head(), onBatch: (changes) => void heard.push(...changes), onLost: () => {} })
  await write()
  await eventually(() => assert.equal(heard.length, 1))
})
