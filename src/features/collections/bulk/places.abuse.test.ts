import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { after, test } from 'node:test'
import { eventually, startServer } from '../../../../test/kit/kit.ts'

const api = await startServer({ config: { 'server.trusted_proxies': ['127.0.0.1'] } })
await api.sql(`create table big (id int primary key, text text);
  insert into big select i, repeat('x', 1000) from generate_series(1, 20000) i`)
await api.sql('create table small (id int primary key)')

const paused: IncomingMessage[] = []
after(() => {
  for (const answer of paused) answer.destroy()
})
/** An export of which nothing is read beyond its head. */
async function pausedExport(from: string): Promise<void> {
  const headers = { 'x-forwarded-for': from }
  const sent = get(`${api.url}/api/collections/big/export.csv`, { headers, agent: false })
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  paused.push(answer.on('error', () => {}).pause())
}
const read = (from: string, as?: string) =>
  api.call('GET /api/collections/small/export.csv', {
    headers: { 'x-forwarded-for': from },
    ...(as !== undefined && { as }),
  })

test('two addresses whose exports are not read cannot keep the others, or the operator, from theirs', async () => {
  for (const from of ['10.0.0.1', '10.0.0.1', '10.0.0.2', '10.0.0.2']) await pausedExport(from)
  const operators = await read('10.0.0.3', 'admin')
  assert.equal(operators.status, 200)
  assert.equal((await read('10.0.0.1')).status, 503)
  await eventually(async () => assert.equal((await read('10.0.0.4')).status, 200))
})
