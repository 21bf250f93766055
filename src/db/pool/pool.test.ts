import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import pg from 'pg'
import { createDatabase, stopClusters } from '../../../test/kit/cluster.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { poolOptions } from '../../../test/kit/pool.ts'
import { budgets } from '../../core/budgets.ts'
import { AppError } from '../../core/errors.ts'
import { ANONYMOUS, type Identity, SYSTEM } from '../../core/identity.ts'
import { failedStatement } from '../pg-errors.ts'
import { openConnection } from '../protocol/driver.ts'
import { ReceiveBuffers, wholeMessages } from '../protocol/whole-messages.ts'
import { sql } from '../sql.ts'
import { Monitor } from './monitor.ts'
import { openPool, type PoolOptions } from './pool.ts'
import { Primary } from './primary.ts'

const database = await createDatabase('embedded')
const options: PoolOptions = { ...poolOptions, url: database.url }
const pool = await openPool(options)
after(async () => {
  await pool.stop()
  await database.drop()
  await stopClusters()
})
const user = (id: string): Identity => ({
  kind: 'user',
  id,
  email: `${id}@x.test`,
  aal: 'aal1',
  amr: [],
  sessionId: '',
  isAnonymous: false,
  expiresAt: 0,
})
const whoAmI = sql`select json_build_object('role', current_user, 'id', current_setting('svc.user_id'), 'zone', current_setting('TimeZone'))::text`

test('each flight carries its own identity, and none leaks to the next caller of the connection', async () => {
  const seen = await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      const who = i % 3 === 0 ? ANONYMOUS : i % 3 === 1 ? user(`u${i}`) : SYSTEM
      return [who, JSON.parse((await pool.fly(who, whoAmI)) ?? '')] as const
    }),
  )
  for (const [who, { role, id, zone }] of seen) {
    assert.equal(zone, 'UTC')
    assert.equal(id, who.kind === 'user' ? who.id : '')
    assert.equal(role, who.kind === 'user' ? 'svc_authenticated' : who.kind === 'anonymous' ? 'svc_anon' : 'postgres')
  }
})

test('what is relayed is what PostgreSQL sent, whatever its length and whatever follows it', async () => {
  const texts = [0, 1, 65_535, 65_536, 65_537, 70_000, 3_000_000].map(
    (length) => 'ä'.repeat(length / 2) + 'x'.repeat(length % 2),
  )
  const relayed = await Promise.all(
    texts.flatMap((text) => [
      pool.fly(ANONYMOUS, sql`select ${text}::text`, { kind: 'read', as: 'bytes' }),
      pool.fly(ANONYMOUS, sql`select ${text}::text from generate_series(1, 3)`, { kind: 'read', as: 'bytes' }),
    ]),
  )
  assert.deepEqual(
    relayed.map(String),
    texts.flatMap((text) => [text, text]),
  )
  assert.deepEqual(
    relayed.map((answer) => typeof answer === 'string'),
    texts.flatMap((text) => [Buffer.byteLength(text) <= 65_536, Buffer.byteLength(text) <= 65_536]),
  )
  assert.equal(await pool.fly(ANONYMOUS, sql`select null::text`, { as: 'bytes' }), null)
  assert.equal(await pool.fly(ANONYMOUS, sql`select where false`, { as: 'bytes' }), null)
  const statements = [sql`select 'a'`, sql`select repeat('b', 70000)`, sql`select null::text`] as const
  const all = await pool.fly(ANONYMOUS, statements, { as: 'bytes' })
  assert.deepEqual(
    all.map((answer) => answer && String(answer)),
    ['a', 'b'.repeat(70_000), null],
  )
})

test('settings that a function made for its session do not reach the next flight', async () => {
  await pool.fly(
    user('mallory'),
    sql`select set_config('svc.user_id', 'victim', false), set_config('statement_timeout', '1', false)`,
  )
  for (let i = 0; i < 8; i++) {
    const { id } = JSON.parse((await pool.fly(ANONYMOUS, whoAmI)) ?? '')
    assert.equal(id, '')
    assert.equal(await pool.fly(ANONYMOUS, sql`select current_setting('statement_timeout')`, { kind: 'slow' }), '1min')
  }
})

test('a flight is all or nothing and names the statement that failed', async () => {
  await pool.run(SYSTEM, sql`create table public.once (id int primary key)`)
  const error = await pool
    .fly(SYSTEM, [sql`insert into public.once values (1)`, sql`insert into public.once values (2)`, sql`select 1/0`])
    .catch((e: unknown) => e)
  assert.equal(failedStatement(error), 2)
  assert.equal(await pool.fly(SYSTEM, sql`select count(*) from public.once`), '0')
})

test('an empty statement does nothing, and COPY with the client is refused; both leave the pool whole', async () => {
  assert.equal(await pool.fly(SYSTEM, sql``), null)
  await pool.run(SYSTEM, sql`create table public.copied (id int)`)
  for (const copy of [sql`copy public.copied from stdin`, sql`copy (select generate_series(1, 100000)) to stdout`]) {
    await assert.rejects(pool.run(SYSTEM, copy), { message: 'COPY from or to the client is not possible here' })
    assert.equal(await pool.fly(SYSTEM, sql`select count(*) from public.copied`), '0')
  }
})

test('an error in one flight leaves the flights behind it on the same connection whole', async () => {
  const answers = await Promise.allSettled(
    Array.from({ length: 100 }, (_, i) =>
      i % 4 === 0 ? pool.fly(SYSTEM, sql`select 1/${0}::int`) : pool.fly(SYSTEM, sql`select ${i}::text`),
    ),
  )
  for (const [i, answer] of answers.entries()) {
    if (i % 4 === 0) assert.equal(answer.status, 'rejected')
    else assert.deepEqual(answer, { status: 'fulfilled', value: String(i) })
  }
})

test('answers that arrive together have one budget over all connections, and small ones none', async () => {
  const receiving = new ReceiveBuffers()
  const one = await openPool({ ...options, receiving })
  const large = () => one.fly(ANONYMOUS, sql`select repeat('x', ${20 * 2 ** 20}::int)`, { kind: 'read', as: 'bytes' })
  // The beginning of an answer that takes all but a little, and does not end.
  const mayHold = () => true
  const slow = wholeMessages({ receiving, feed: () => assert.fail(), refuse: assert.fail, mayHold })
  const size = budgets.queryResultBytes - 10 * 2 ** 20
  const header = Buffer.from('D\0\0\0\0\0\0')
  header.writeUInt32BE(size - 1, 1)
  slow.take(header)
  assert.equal(receiving.arriving, size)
  for (let i = 0; i < 3; i++) {
    await assert.rejects(large(), { errorCode: 'unavailable', message: 'too many large responses at once' })
    assert.equal(await one.fly(ANONYMOUS, sql`select 'small'`), 'small')
  }
  slow.drop()
  assert.equal(receiving.arriving, 0)
  assert.equal((await large())?.length, 20 * 2 ** 20)
  await one.stop()
})

test('a slow statement is cut by its timeout, and its connection goes on', async () => {
  const error = await pool.fly(ANONYMOUS, sql`select pg_sleep(10)`, { timeoutMs: 100 }).catch((e: AppError) => e)
  assert.ok(error instanceof AppError)
  assert.deepEqual([error.status, error.message], [504, 'query timed out'])
  assert.equal(await pool.fly(ANONYMOUS, sql`select 1`), '1')
})

test('aborting cancels the statement in PostgreSQL', async () => {
  const stop = new AbortController()
  const long = { kind: 'slow', timeoutMs: 600_000, signal: stop.signal } as const
  const refused = assert.rejects(pool.fly(ANONYMOUS, sql`select pg_sleep(600), 'cancel me'`, long))
  const active = sql`select count(*) from pg_stat_activity
    where state = 'active' and query like '%cancel me%' and pid <> pg_backend_pid() and datname = current_database()`
  await eventually(async () => assert.equal(await pool.fly(SYSTEM, active), '1'))
  stop.abort()
  await refused
  await eventually(async () => assert.equal(await pool.fly(SYSTEM, active), '0'))
})

test('a transaction commits as a whole, rolls back on a thrown error, and is retried after a deadlock', async () => {
  await pool.run(SYSTEM, sql`create table public.counter (id int primary key, n int)`)
  await pool.run(SYSTEM, sql`insert into public.counter values (1, 0), (2, 0)`)
  await assert.rejects(
    pool.tx(SYSTEM, async (tx) => {
      await tx.run(sql`update public.counter set n = 99`)
      throw new AppError('conflict', 'changed my mind')
    }),
    /changed my mind/,
  )
  const wide = await openPool({ ...options, maxConns: 12 })
  let met = 0
  const bothWays = (first: number, second: number) =>
    wide.tx(SYSTEM, async (tx) => {
      await tx.run(sql`update public.counter set n = n + 1 where id = ${first}::int`)
      met++
      while (met < 2) await new Promise((resolve) => setTimeout(resolve, 5)) // both hold their first row
      await tx.run(sql`update public.counter set n = n + 1 where id = ${second}::int`)
    })
  await Promise.all([bothWays(1, 2), bothWays(2, 1)])
  await wide.stop()
  assert.ok(met > 2, 'one of them was rolled back and ran again')
  assert.equal(await pool.fly(SYSTEM, sql`select string_agg(n::text, ',') from public.counter`), '2,2')
})

test('slow statements in the fast lane do not hold up the flights that come after them', async (t) => {
  const wide = await openPool({ ...options, maxConns: 20 })
  t.after(() => wide.stop())
  const holder = await openConnection({ url: database.url })
  t.after(() => holder.end())
  await holder.query('select pg_advisory_lock(1)')
  // More than the connections in use have room for, so that quick flights find them full.
  const wait = sql`select pg_advisory_xact_lock_shared(1)`
  const patient = { kind: 'read', lockTimeoutMs: 60_000 } as const
  const slow = Promise.all(Array.from({ length: 16 }, () => wide.fly(SYSTEM, wait, patient)))
  const quick = await Promise.all(
    Array.from({ length: 8 }, (_, i) => wide.fly(SYSTEM, sql`select ${i}::text`, { kind: 'read' })),
  )
  assert.deepEqual(quick, ['0', '1', '2', '3', '4', '5', '6', '7'])
  await holder.query('select pg_advisory_unlock(1)')
  await slow
})

test('more statements than the cache holds are prepared and closed in turn', async () => {
  const one = await openPool({ ...options, maxConns: 1 })
  for (let i = 0; i < 1200; i++) {
    const text = Object.assign([`select '${i}'`], { raw: [`select '${i}'`] }) as unknown as TemplateStringsArray
    assert.equal(await one.fly(SYSTEM, sql(text)), String(i))
  }
  const kept = Number(await one.fly(SYSTEM, sql`select count(*) from pg_prepared_statements`))
  assert.ok(kept <= 520, `${kept} statements are prepared`)
  await one.stop()
})

test('a statement whose result type changed under DDL is planned again', async () => {
  await pool.run(SYSTEM, sql`create table public.shape (a int)`)
  await pool.run(SYSTEM, sql`insert into public.shape values (1)`)
  const read = () => pool.rows(SYSTEM, sql`select * from public.shape`)
  for (let i = 0; i < 10; i++) assert.deepEqual(await read(), [{ a: 1 }])
  await pool.run(SYSTEM, sql`alter table public.shape add b text default 'x'`)
  for (let i = 0; i < 10; i++) assert.deepEqual(await read(), [{ a: 1, b: 'x' }])
})

test('without prepared statements nothing stays on the connection', async () => {
  const plain = await openPool({ ...options, preparedStatements: false })
  assert.equal(await plain.fly(ANONYMOUS, sql`select ${'x'}::text`), 'x')
  assert.equal(await plain.fly(SYSTEM, sql`select count(*) from pg_prepared_statements`), '0')
  await plain.stop()
})

test('a lost listener connection is replaced, and told about', async () => {
  const heard: string[] = []
  let gaps = 0
  await pool.listen(
    'kernel_test',
    (payload) => heard.push(payload),
    () => gaps++,
  )
  const outside = await openConnection({ url: database.url })
  await outside.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'savanna listener' and datname = current_database()`,
  )
  await eventually(() => assert.ok(gaps > 0))
  await outside.query(`notify kernel_test, 'hello'`)
  await eventually(() => assert.deepEqual(heard, ['hello']))
  await outside.end()
})

test('patience with a row is that of PostgreSQL with a lock', async () => {
  await pool.run(SYSTEM, sql`create table public.hot (id int primary key)`)
  const holder = await openConnection({ url: database.url })
  await holder.query('begin; lock table public.hot')
  const write = () => pool.run(SYSTEM, sql`insert into public.hot values (1)`, { row: 'hot 1', lockTimeoutMs: 20_000 })
  const first = write()
  await assert.rejects(write(), { errorCode: 'transaction_conflict', message: 'transaction conflict, please retry' })
  await holder.end()
  assert.equal(await first, 1)
})

type Send = (text: string) => unknown

/** Every ping goes through `ask`; returns their number. */
function eachPing(t: TestContext, ask: (send: Send, count: number) => unknown): () => number {
  const query = pg.Client.prototype.query as (...asked: unknown[]) => unknown
  let count = 0
  t.mock.method(pg.Client.prototype, 'query', function (this: pg.Client, ...asked: unknown[]) {
    return asked[0] === 'select 1' ? ask((text) => query.call(this, text), ++count) : query.apply(this, asked)
  })
  return () => count
}

test('an error of ours inside a transaction stays what it is, and what was written is undone', async () => {
  const mistake = new TypeError('x is undefined')
  const failing = pool.tx(SYSTEM, async (tx) => {
    await tx.run(sql`create table public.mistaken ()`)
    throw mistake
  })
  await assert.rejects(failing, (error) => error === mistake)
  assert.equal(await pool.fly(SYSTEM, sql`select to_regclass('public.mistaken')::text`), null)
})

async function startMonitor(t: TestContext): Promise<string[]> {
  const states: string[] = []
  const monitor = new Monitor(
    new Primary(database.url),
    () => {},
    (state) => states.push(state),
  )
  await monitor.start()
  t.after(() => monitor.stop())
  return states
}

test('a process that stood still itself does not take the database for unreachable', async (t) => {
  const pings = eachPing(t, (send) => {
    const answer = send('select 1')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000)
    return answer
  })
  const states = await startMonitor(t)
  await eventually(() => assert.equal(pings(), 2))
  assert.deepEqual([...new Set(states)], ['ok'])
})

test('a ping that PostgreSQL refuses, as one that somebody cancels, is not the last', async (t) => {
  const pings = eachPing(t, (send, count) => send(count === 1 ? 'select 1 / 0' : 'select 1'))
  await startMonitor(t)
  await eventually(() => assert.ok(pings() > 2))
})
