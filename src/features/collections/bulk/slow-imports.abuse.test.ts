import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { before, test } from 'node:test'
import { listenTo } from '../../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'auth.enabled': false, 'api.import_max_size': '1MB' } })
  await api.sql(
    'create table people (id int primary key, name text); create table marks (id serial primary key, n int)',
  )
  await eventually(async () => assert.equal((await api.call('GET /api/collections/marks')).status, 200))
})

const CSV = { 'content-type': 'text/csv' }
type Sending = { sending: ClientRequest; answer: Promise<{ status: number; body: string }> }
function beginImport(url = api.url, headers: Record<string, string> = {}): Sending {
  const options = { method: 'POST', headers: { ...CSV, ...headers }, agent: false }
  const sending = request(`${url}/api/collections/people/import`, options)
  sending.on('error', () => {})
  const answer = (async () => {
    const [response] = (await once(sending, 'response')) as [IncomingMessage]
    let body = ''
    for await (const chunk of response.setEncoding('utf8')) body += chunk
    return { status: response.statusCode ?? 0, body }
  })()
  answer.catch(() => {})
  return { sending, answer }
}
const openTransactions = (): Promise<unknown[]> =>
  api.sql(`select from pg_stat_activity where datname = current_database() and backend_xid is not null`)
/** Files that this process has open and that have no name any more. */
const spooled = (): number =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return /svc-import.*\(deleted\)$/.test(readlinkSync(`/proc/self/fd/${fd}`))
    } catch {
      return false
    }
  }).length

test('while the rows of an import arrive, no transaction is open and everyone hears of changes', async () => {
  const stream = await listenTo(api.url)
  const { sending, answer } = beginImport()
  sending.write('id,name\n')
  for (let id = 0; id < 5_000; id++) sending.write(`${id},${'x'.repeat(100)}\n`)
  for (let i = 0; i < 5; i++) {
    const { body } = await api.call('POST /api/collections/marks', { json: { n: 1 } })
    await stream.until(({ data }) => data?.table === 'marks' && data.record.id === body.id)
    assert.deepEqual(await openTransactions(), [])
    sending.write(`${10_000 + i},late\n`)
  }
  assert.equal(spooled(), 1)
  assert.deepEqual(await api.sql('select from people'), [])
  sending.end()
  assert.deepEqual(await answer, { status: 200, body: '{"created":5005,"updated":0,"skipped":0,"dry_run":false}' })
  assert.equal((await api.sql('select from people')).length, 5_005)
  assert.equal(spooled(), 0)
  stream.close()
})

test('an import that is cut off, or refused on its way, leaves nothing on the disk', async () => {
  const cut = beginImport()
  cut.sending.write('id,name\n')
  cut.sending.write(`20000,${'x'.repeat(600_000)}`)
  await eventually(() => assert.equal(spooled(), 1))
  cut.sending.destroy()
  await eventually(() => assert.equal(spooled(), 0))
  const large = beginImport()
  large.sending.write('id,name\n')
  for (let id = 0; id < 12_000 && !large.sending.destroyed; id++)
    large.sending.write(`${30_000 + id},${'x'.repeat(100)}\n`)
  assert.equal((await large.answer).status, 413)
  await eventually(() => assert.equal(spooled(), 0))
  assert.deepEqual(await api.sql('select from people where id >= 20000'), [])
})

test('what waits on the disk is bounded: of one address the oldest gives way', async () => {
  const imports = Array.from({ length: 5 }, () => beginImport())
  for (const { sending } of imports) {
    sending.write('id,name\n')
    for (let id = 0; id < 7_000; id++) sending.write(`${id},${'x'.repeat(100)}\n`)
    await eventually(() => assert.equal(sending.writableLength, 0))
  }
  const [first] = imports
  assert.equal((await first?.answer)?.status, 503)
  await eventually(() => assert.ok(spooled() <= 2))
  for (const { sending } of imports) sending.destroy()
  await eventually(() => assert.equal(spooled(), 0))
})

test('rights are judged again when the rows have arrived', async () => {
  const guarded = await startServer({ on: api })
  const { token, refreshToken } = await guarded.signUp('ana@x.test')
  const { sending, answer } = beginImport(guarded.url, { authorization: `Bearer ${token}` })
  sending.write('id,name\n50000,late\n')
  assert.equal((await guarded.call('POST /api/auth/logout', { json: { refreshToken } })).status, 204)
  await eventually(async () => assert.equal((await guarded.call('GET /api/auth/me', { as: token })).status, 401))
  sending.end()
  assert.equal((await answer).status, 401)
  assert.deepEqual(await api.sql('select from people where id = 50000'), [])
  await guarded.stop()
})
