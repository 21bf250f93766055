import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { spawnServer } from '../kit/kit.ts'
import { attacks, endConnections } from './attackers.ts'

const SECONDS = 4
const MAX_RESIDENT_MB = 1_200

const residentMb = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

test('a crowd of hostile clients fails nobody else and does not fill the memory', async (t) => {
  const api = await spawnServer({
    config: {
      'server.trusted_proxies': '127.0.0.1',
      'rate_limit.register': '10/min',
      'rate_limit.login': '30/min',
      'rate_limit.password_reset': '10/min',
      // What is asked is whether anybody fails, not how fast this machine is.
      'database.acquire_timeout': 60,
    },
  })
  await api.sql(`
    create table notes (id serial primary key, v text);
    create table large (id serial primary key, v text);
    insert into large (v) select repeat(i::text, 20000) from generate_series(1, 100) i;
    insert into notes (v) select 'note ' || i from generate_series(1, 1000) i`)
  const password = 'long enough password'
  for (const name of ['ana', 'bo']) await api.signUp(`${name}@x.test`, password)
  const pid = api.child.pid ?? 0

  const end = new AbortController()
  const port = Number(new URL(api.url).port)
  const crowd = Object.values(attacks('/api/collections/large?perPage=100')).flatMap((attack) => [attack, attack])
  assert.ok(crowd.length >= 20)
  const raging = crowd.map((attack) => attack({ port, stop: end.signal }))

  const took: number[] = []
  const failed: string[] = []
  let peak = 0
  const until = performance.now() + SECONDS * 1000
  /** What an ordinary client does, one thing after the other. */
  const ordinary = async (client: number) => {
    const { body } = await api.call('POST /api/auth/login', {
      json: { email: 'bo@x.test', password },
      headers: { 'x-forwarded-for': `192.168.1.${client}` },
    })
    for (let i = 1; performance.now() < until; i++) {
      for (const [line, json] of [
        [`GET /api/collections/notes/${i}`],
        ['GET /api/collections/notes?perPage=20&sort=-id'],
        ['POST /api/collections/notes', { v: `of client ${client}` }],
        ['GET /api/auth/me'],
        ['GET /health'],
      ] as [`GET /${string}`, unknown?][]) {
        const began = performance.now()
        const { status, text } = await api.call(line, { as: body.token, ...(json !== undefined && { json }) })
        took.push(performance.now() - began)
        if (status !== 200 && status !== 201) failed.push(`${line}: ${status} ${text.slice(0, 100)}`)
      }
      peak = Math.max(peak, residentMb(pid))
    }
  }
  await Promise.all(Array.from({ length: 8 }, (_, i) => ordinary(i + 1)))
  end.abort()
  endConnections()
  await Promise.all(raging)

  took.sort((a, b) => a - b)
  const at = (share: number) => Math.round(took[Math.floor(took.length * share)] ?? 0)
  t.diagnostic(
    `${took.length} ordinary calls: median ${at(0.5)} ms, p99 ${at(0.99)} ms; resident ${Math.round(peak)} MB`,
  )
  assert.deepEqual(failed, [])
  assert.ok(peak < MAX_RESIDENT_MB, `${peak} MB resident`)
  assert.equal(api.child.exitCode, null)
  assert.equal((await api.call('GET /health')).status, 200)
  assert.ok(!/unhandled|heap out of memory/i.test(api.output()))
})
