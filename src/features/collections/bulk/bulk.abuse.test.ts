import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, get, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../../test/kit/kit.ts'
import { AppError } from '../../../core/errors.ts'
import { bodyBytes, textOf } from './body-text.ts'

const MB = 2 ** 20
/** More than the buffers of both ends hold. */
const ROWS = 40_000

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table big (id int primary key, body text);
    insert into big select i, repeat(md5(i::text), 30) from generate_series(1, ${ROWS}) i;
    create table people (id int primary key, name text)`)
})

const CSV = { 'content-type': 'text/csv' }
const put = (body: string) => api.call('POST /api/collections/people/import', { body, headers: CSV })

/** Sends as much as is taken, until there is an answer. */
async function pour(
  head: string,
  piece: string,
  total: number,
): Promise<{ sent: number; status: number; body: string }> {
  const sending = request(`${api.url}/api/collections/people/import`, { method: 'POST', headers: CSV })
  sending.on('error', () => {}) // the server need not take what it will not read
  let sent = 0
  const answered = once(sending, 'response') as Promise<[IncomingMessage]>
  let isOver = false
  answered.then(
    () => (isOver = true),
    () => (isOver = true),
  )
  sending.write(head)
  for (; sent < total && !isOver; sent += piece.length) {
    if (!sending.write(piece)) await Promise.race([once(sending, 'drain'), answered])
  }
  const [answer] = await answered
  let body = ''
  for await (const chunk of answer.setEncoding('utf8')) body += chunk
  sending.destroy()
  return { sent, status: answer.statusCode ?? 0, body }
}

test('of a line of 90 MB no more is taken than a row may have, and nobody else notices', async () => {
  const pouring = pour('id,name\n1,', 'x'.repeat(64 * 1024), 90 * MB)
  assert.equal((await api.call('GET /api/collections/big/1')).status, 200)
  const { sent, status, body } = await pouring
  assert.deepEqual([status, JSON.parse(body).data.rows], [422, [{ line: 2, message: 'row is too long' }]])
  assert.ok(sent < 45 * MB, `${sent} bytes were taken`)
})

test('bombs of quotes and of commas are refused like other long rows', async () => {
  const tooLong = [{ line: 2, message: 'row is too long' }]
  const quotes = await pour('id,name\n1,"', '""'.repeat(32 * 1024), 60 * MB)
  assert.deepEqual([quotes.status, JSON.parse(quotes.body).data.rows], [422, tooLong])
  const cells = await put(`id,name\n${'"",'.repeat(3_000)}`)
  assert.deepEqual([cells.status, cells.body.data.rows], [422, tooLong])
  const open = await put(`id,name\n1,${'"'.repeat(99_999)}`)
  assert.deepEqual([open.status, open.body.data.rows], [422, [{ line: 2, message: 'a quote is not closed' }]])
  const many = await put(`id,name\n1,"${'""'.repeat(100_000)}"`)
  assert.deepEqual([many.status, many.body.created], [200, 1])
  assert.deepEqual(await api.sql(`select name = repeat('"', 100000) as same from people`), [{ same: 't' }])
})

/** An export of which nothing has been read yet. */
async function openExport(): Promise<IncomingMessage> {
  const [answer] = (await once(get(`${api.url}/api/collections/big/export.csv`, { agent: false }), 'response')) as [
    IncomingMessage,
  ]
  assert.equal(answer.statusCode, 200)
  return answer
}
const exporters = async (): Promise<string[]> =>
  (
    await api.sql(`select pid::text from pg_stat_activity
      where query like 'fetch%svc_export' and pid <> pg_backend_pid() and datname = current_database()`)
  ).map(({ pid }) => String(pid))

test('a reader who stops holds one connection, keeps nobody from anything, and gives it back by leaving', async () => {
  const stopped = await openExport()
  stopped.pause()
  await eventually(async () => {
    const waiting = await api.sql(
      `select from pg_stat_activity where query like 'fetch%svc_export' and datname = current_database()
        and (state = 'idle in transaction' or wait_event = 'ClientWrite')`,
    )
    assert.equal(waiting.length, 1)
  })
  const other = await api.call('GET /api/collections/big/export.csv?filter=id<=3')
  assert.equal(other.text.split('\r\n').length, 5)
  assert.equal((await api.call('POST /api/collections/big', { json: { id: ROWS + 1 } })).status, 201)
  await api.sql(`delete from big where id > ${ROWS}`)
  stopped.destroy()
  await eventually(async () => assert.deepEqual(await exporters(), []))
  for (let i = 0; i < 4; i++) {
    assert.equal((await api.call('GET /api/collections/big/export.ndjson?filter=id<=3')).status, 200)
  }
})

test('an export that breaks on the way does not look complete', async () => {
  const broken = await openExport()
  broken.pause()
  await eventually(async () => assert.equal((await exporters()).length, 1))
  for (const pid of await exporters()) await api.sql(`select pg_terminate_backend(${pid})`)
  let text = ''
  await assert.rejects(async () => {
    for await (const chunk of broken.setEncoding('utf8')) text += chunk
  })
  assert.equal(broken.complete, false)
  assert.ok(text.split('\r\n').length < ROWS)
})

test('an export that nobody disturbs is whole, whatever its rows are like', async () => {
  await api.sql(`create table uneven (id int primary key, body text);
    insert into uneven select i, repeat('ä"', case when i % 500 = 0 then 300000 else i % 7 end) from generate_series(1, 3000) i`)
  const { text } = await api.call('GET /api/collections/uneven/export.csv')
  const bytes = await api.sql(
    `select sum(length(body) + (length(body) / 2) + 2 + length(id::text) + 3)::int as n from uneven where body <> ''`,
  )
  const empty = await api.sql(`select sum(length(id::text) + 5)::int as n from uneven where body = ''`)
  assert.equal(text.length, Number(bytes[0].n) + Number(empty[0].n) + 'id,body\r\n'.length)
  const lines = await api.call('GET /api/collections/uneven/export.ndjson')
  const rows = lines.text.trim().split('\n')
  assert.equal(rows.length, 3000)
  assert.equal(JSON.parse(rows[499] ?? '').body.length, 600_000)
})

test('rows that trickle in are waited for no longer than other bodies', async () => {
  const server = createServer(async (request, response) => {
    const pace = { graceMs: 150, bytesPerSecond: 1_000_000 }
    let read = ''
    try {
      for await (const text of textOf(bodyBytes(request, MB, { pace }))) read += text
      response.end(read)
    } catch (error) {
      response.end(error instanceof AppError ? `${error.status} ${error.message}` : String(error))
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sending = request({ port, host: '127.0.0.1', method: 'POST' })
  sending.on('error', () => {})
  sending.write('id\n')
  const trickle = setInterval(() => sending.write('1\n'), 10)
  const [answer] = (await once(sending, 'response')) as [IncomingMessage]
  clearInterval(trickle)
  let said = ''
  for await (const chunk of answer.setEncoding('utf8')) said += chunk
  assert.equal(said, '408 request timeout')
  sending.destroy()
  server.close()
})

test('an import that trickles in is refused at its route, keeps nothing and gives its place back', async () => {
  await api.sql('truncate people')
  const sending = request(`${api.url}/api/collections/people/import`, { method: 'POST', headers: CSV })
  sending.on('error', () => {})
  const answered = once(sending, 'response') as Promise<[IncomingMessage]>
  sending.write('id\n')
  let id = 0
  // A hundredth of the pace that a body has to keep.
  const trickle = setInterval(() => sending.write(`${++id}\n`), 100)
  const [answer] = await answered
  clearInterval(trickle)
  let said = ''
  for await (const chunk of answer.setEncoding('utf8')) said += chunk
  assert.deepEqual([answer.statusCode, JSON.parse(said).message], [408, 'request timeout'])
  sending.destroy()
  assert.deepEqual(await api.sql('select from people'), [])
  assert.equal((await put('id\n1\n')).status, 200)
})

test('the addresses of one IPv6 network hold the places of one address', async () => {
  const behind = await startServer({ on: api, config: { 'server.trusted_proxies': ['127.0.0.1'] } })
  const from = (address: string) => ({ 'x-forwarded-for': address })
  const slow = await Promise.all(
    [1, 2].map(async (host) => {
      const headers = from(`2001:db8:1:2::${host}`)
      const sending = get(`${behind.url}/api/collections/big/export.csv`, { headers, agent: false })
      const [answer] = (await once(sending, 'response')) as [IncomingMessage]
      return answer.pause()
    }),
  )
  const read = (address: string) => behind.call('GET /api/collections/people/export.csv', { headers: from(address) })
  await eventually(async () => {
    const { status, body } = await read('2001:db8:1:2:ffff::1')
    assert.deepEqual([status, body.message], [503, 'server busy'])
  })
  assert.equal((await read('2001:db8:1:3::1')).status, 200)
  for (const answer of slow) answer.destroy()
  await eventually(async () => assert.equal((await read('2001:db8:1:2:ffff::1')).status, 200))
})
