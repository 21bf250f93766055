import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { test } from 'node:test'
import { AGENTS, agentTokens } from '../../../../test/kit/agents.ts'
import { freePort } from '../../../../test/kit/free-port.ts'
import { eventually, spawnServer } from '../../../../test/kit/kit.ts'

const CALLS = 1_000

test('a list through MCP costs at most a millisecond more than the list itself', async (t) => {
  // Calls are counted, as they are by default.
  const config = { ...AGENTS, 'rate_limit.agents': '1000000/min', 'server.port': await freePort() }
  const api = await spawnServer({ config })
  const ana = await api.signUp('ana@x.test')
  await api.sql(`create table notes (id int primary key, owner uuid not null, title text);
    alter table notes enable row level security; create policy own on notes using (owner = svc.uid()); create index on notes (owner)`)
  await api.sql(`insert into notes select i, $1, 'a title of some words ' || i from generate_series(1, 1000) i`, [
    ana.user.id,
  ])
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/notes', { as: ana.token })).status, 200),
  )
  const { access } = await agentTokens(api, ana)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const send = (method: string, path: string, token: string, body = '') =>
    new Promise<string>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, ...(body !== '' && { 'content-type': 'application/json' }) }
      const sent = request(`${api.url}${path}`, { method, agent, headers }, (answer) => {
        let text = ''
        answer.setEncoding('utf8')
        answer.on('data', (chunk) => {
          text += chunk
        })
        answer.on('end', () => (answer.statusCode === 200 ? resolve(text) : reject(new Error(text))))
      })
      sent.on('error', reject)
      sent.end(body)
    })
  const params = { name: 'list', arguments: { table: 'notes' } }
  const message = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  const list = () => send('GET', '/api/collections/notes', ana.token)
  const listed = () => send('POST', '/api/mcp', access, message)
  assert.equal(JSON.parse(await listed()).result.structuredContent.items.length, JSON.parse(await list()).items.length)

  const timed = async (work: () => Promise<string>): Promise<number> => {
    const started = performance.now()
    await work()
    return performance.now() - started
  }
  // Turn by turn, so that both meet the same machine.
  const medians = async (): Promise<readonly [through: number, itself: number]> => {
    const [a, b]: [number[], number[]] = [[], []]
    for (let i = 0; i < CALLS; i++) {
      a.push(await timed(listed))
      b.push(await timed(list))
    }
    return [median(a), median(b)]
  }
  await medians()
  let [through, itself] = await medians()
  for (let round = 0; round < 4 && through - itself > 1; round++) [through, itself] = await medians()
  t.diagnostic(`median of ${CALLS}: ${through.toFixed(2)} ms through MCP, ${itself.toFixed(2)} ms the list`)
  assert.ok(through - itself <= 1, `${through} ms through MCP, ${itself} ms the list`)
})

const median = (times: number[]): number => times.sort((a, b) => a - b)[times.length >> 1] ?? 0
