import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../protocol/driver.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'auth.enabled': false } })
  await api.sql(
    `create table rows (id serial primary key, n int); grant all on rows to svc_anon; grant all on rows_id_seq to svc_anon`,
  )
  await eventually(async () => assert.equal((await api.call('GET /api/collections/rows')).status, 200))
})
const write = async (at: InProcessServer = api): Promise<number> => {
  const { status, body, text } = await at.call('POST /api/collections/rows', { json: { n: 1 } })
  assert.equal(status, 201, text)
  return body.id
}

test('what keeps the log unsettled for seconds is named to the operator, and counted', async () => {
  const status = async (): Promise<string[]> =>
    (await api.call('GET /api/admin/status', { as: 'admin' })).body.warnings ?? []
  const seconds = async (): Promise<number> => {
    const { text } = await api.call('GET /metrics', { as: 'admin' })
    return Number(/^svc_change_log_unsettled_seconds (\S+)$/m.exec(text)?.[1])
  }
  assert.equal(await seconds(), 0)
  const holder = await openConnection({ url: api.databaseUrl })
  await holder.query(`set application_name = 'nightly report'; begin; select pg_current_xact_id()`)
  await write()
  await eventually(async () => {
    const held = (await status()).filter((warning) => warning.startsWith('the change log is held up'))
    assert.equal(held.length, 1)
    assert.match(held[0] ?? '', /"nightly report".*idle in transaction/)
  })
  assert.ok((await seconds()) >= 2)
  await holder.query('commit')
  await eventually(async () => {
    assert.deepEqual(
      (await status()).filter((warning) => warning.startsWith('the change log')),
      [],
    )
    assert.equal(await seconds(), 0)
  })
  await holder.end()
})

test('PostgreSQL is not asked to notify anyone while no other process listens', async () => {
  const ear = await openConnection({ url: api.databaseUrl })
  const heard: string[] = []
  ear.on('notification', ({ channel }) => void heard.push(channel))
  await ear.query('listen svc_changes')
  const own = await listenTo(api.url)
  for (let i = 0; i < 20; i++) {
    const id = await write()
    await own.until(({ data }) => data?.record?.id === id)
  }
  await ear.query('select 1')
  assert.deepEqual(heard, [])
  own.close()

  const other = await startServer({ on: api, config: { 'auth.enabled': false } })
  const stream = await listenTo(other.url)
  await eventually(async () => {
    const id = await write()
    await stream.until(({ data }) => data?.record?.id === id)
    assert.equal(heard[0], 'svc_changes')
  })
  stream.close()
  await other.stop()
  await ear.end()
})

test('a writer has its transaction number before it takes an id of the log, though it wrote nothing before', async () => {
  const [keeper, writer] = [
    await openConnection({ url: api.databaseUrl }),
    await openConnection({ url: api.databaseUrl }),
  ]
  // Who takes an id waits for the keeper.
  await keeper.query('begin; alter sequence svc.change_log_id_seq cache 1')
  const [{ pid }] = (await writer.query('select pg_backend_pid() as pid')).rows as [{ pid: number }]
  const writing = writer.query(`insert into svc.change_log (shape, table_oid, action) values (1, 0, 'c')`)
  await eventually(async () => {
    const [waiting] = await api.sql(
      `select backend_xid is not null as has_number from pg_stat_activity where pid = ${pid} and wait_event_type = 'Lock'`,
    )
    assert.deepEqual(waiting, { has_number: 't' })
  })
  await keeper.query('rollback')
  await writing
  await Promise.all([keeper.end(), writer.end()])
})
