import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { Agent, request } from 'node:http'
import { test } from 'node:test'
import { listenTo } from '../kit/event-stream.ts'
import { eventually, type SpawnedServer, spawnServer } from '../kit/kit.ts'
import { get, type Outcome } from './kept-connection.ts'

/** Its children that run the server; the loader of the test has helpers of its own. */
const workersOf = ({ child }: Pick<SpawnedServer, 'child'>): number[] => serversUnder(child.pid ?? 0)

const serversUnder = (parent: number): number[] =>
  spawnSync('ps', ['-o', 'pid=,args=', '--ppid', String(parent)], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter((line) => /main\.[jt]s/.test(line))
    .map((line) => Number.parseInt(line, 10))

const start = (config: Record<string, unknown> = {}) => spawnServer({ config: { 'server.workers': 2, ...config } })

test('a worker that is killed is replaced, and the others keep serving', async () => {
  const server = await start()
  const before = workersOf(server)
  assert.equal(before.length, 2)
  const [victim = 0, other = 0] = before
  process.kill(victim, 'SIGKILL')
  await eventually(async () => {
    // A connection that the dead one still held, or was just being handed, is the client's to open again.
    const signal = AbortSignal.timeout(5_000)
    assert.equal((await server.call('GET /health', { signal })).status, 200)
  })
  await eventually(() => {
    const now = workersOf(server)
    assert.ok(now.length === 2 && now.includes(other) && !now.includes(victim), `workers ${now}`)
  })
  await eventually(() => assert.match(server.output(), /a worker ended and is replaced/))
  await eventually(async () => {
    const { body } = await server.call('GET /api/admin/stats', { as: 'admin' })
    assert.equal(body.db_pool_max, 8)
  })
})

test('a worker that is killed while the others start does not end the start', async () => {
  const before = serversUnder(process.pid)
  const starting = start({ 'server.workers': 3 })
  const victim = await eventually(() => {
    const [parent = 0] = serversUnder(process.pid).filter((pid) => !before.includes(pid))
    const [, second] = serversUnder(parent)
    assert.ok(second)
    return second
  })
  process.kill(victim, 'SIGKILL')
  const server = await starting
  await eventually(() => {
    const now = workersOf(server)
    assert.ok(now.length === 3 && !now.includes(victim), `workers ${now}`)
  })
})

test('workers that are told to stop under load cut nobody off', async () => {
  const server = await start({ 'server.shutdown_timeout': 600 })
  const workers = workersOf(server)
  const outcomes: Outcome[] = []
  let stopping = false
  const clients = Array.from({ length: 8 }, async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    while (!stopping) {
      const outcome = await get(`${server.url}/health`, agent)
      outcomes.push(outcome)
      if (typeof outcome === 'string') break
    }
    agent.destroy()
  })
  await eventually(() => assert.ok(outcomes.length > 200, `${outcomes.length}: ${[...new Set(outcomes)].join()}`))
  await server.kill('SIGTERM')
  stopping = true
  await Promise.all(clients)
  assert.equal(server.child.exitCode, 0)
  const statuses = new Set(outcomes)
  for (const expected of [200, 503, 'ECONNREFUSED']) statuses.delete(expected)
  assert.deepEqual([...statuses], [])
  for (const pid of workers) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
})

test('stats, metrics and logs are those of all workers together', async () => {
  const server = await start({ 'log.level': 'info', 'metrics.enabled': true })
  await server.sql('create table things (id int primary key)')
  const agents = Array.from({ length: 20 }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
  for (const agent of agents) assert.equal(await get(`${server.url}/api/collections/things`, agent), 200)
  for (const agent of agents) agent.destroy()

  const stats = await server.call('GET /api/admin/stats', { as: 'admin' })
  assert.equal(stats.body.db_pool_max, 8)
  const metrics = await server.call('GET /metrics', { as: 'admin' })
  const counted = /svc_http_requests_total\{method="GET",route="\/api\/collections\/\{table\}",status="200"\} (\d+)/
  assert.equal(counted.exec(String(metrics.body))?.[1], '20')
  const logs = await server.call('GET /api/admin/logs', { as: 'admin' })
  const entries: { message: string; time: string; attrs?: { route?: string } }[] = logs.body.entries
  assert.equal(entries.filter(({ attrs }) => attrs?.route === '/api/collections/{table}').length, 20)
  assert.deepEqual(
    entries.map(({ time }) => time),
    entries.map(({ time }) => time).sort(),
  )
  // Lines are written together, a moment later.
  const lines = () =>
    server
      .output()
      .split('\n')
      .filter((line) => line.includes('/api/collections/{table}'))
  await eventually(() => assert.equal(lines().length, 20))
})

test('a limit counts over all workers, and so do events', async () => {
  const server = await start({ 'rate_limit.login': '3/hour' })
  await server.sql('create table notes (id int primary key)')
  const statuses: number[] = []
  for (let i = 0; i < 8; i++) {
    const agent = new Agent()
    statuses.push(Number(await post(`${server.url}/api/auth/login`, agent)))
    agent.destroy()
  }
  assert.deepEqual(statuses, [400, 400, 400, 429, 429, 429, 429, 429])

  const { token } = await server.signUp('ana@x.test')
  // Every worker has heard of the table by now or hears of it soon.
  await eventually(async () => {
    const probes = await Promise.all(
      [1, 2, 3, 4].map(() => listenTo(server.url, { token, query: { tables: 'notes' } })),
    )
    for (const probe of probes) probe.close()
    for (const probe of probes) assert.equal(probe.status, 200)
  })
  const streams = await Promise.all([1, 2, 3, 4].map(() => listenTo(server.url, { token, query: { tables: 'notes' } })))
  for (const stream of streams) await stream.until(({ event }) => event === 'connected')
  await server.call('POST /api/collections/notes', { json: { id: 1 } })
  for (const stream of streams) {
    await stream.until(({ data }) => data.action === 'create')
    stream.close()
  }
})

const post = (url: string, agent: Agent): Promise<Outcome> =>
  new Promise((resolve) => {
    const headers = { 'content-type': 'application/json' }
    const asked = request(url, { agent, method: 'POST', headers }, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode ?? 0))
    })
    asked.once('error', (error) => resolve(error.message))
    asked.end('{}')
  })
