import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../../test/kit/eventually.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'log.level': 'info' } })
type Entry = { id: string; time: string; level: string; message: string; attrs: Record<string, unknown> }
const read = async (query = ''): Promise<{ entries: Entry[]; next: string }> => {
  const { status, body, text } = await api.call(`GET /api/admin/logs${query}`, { as: 'admin' })
  assert.equal(status, 200, text)
  return body
}
const pathsOf = ({ entries }: { entries: Entry[] }) => entries.map(({ attrs }) => attrs?.['path'])

test('log entries are found by their least level and a text', async () => {
  await api.call('GET /health')
  await api.call('GET /api/nothing/Here')
  await eventually(async () => assert.deepEqual(pathsOf(await read('?find=nothing/here')), ['/api/nothing/Here']))
  assert.deepEqual(pathsOf(await read('?search=HEALTH&limit=1')), ['/health'])
  assert.deepEqual(pathsOf(await read('?search=nothing/here')), ['/api/nothing/Here'])
  assert.deepEqual((await read('?search=nobody-said-this')).entries, [])
  for (const { level } of (await read('?level=warn')).entries) assert.match(level, /WARN|ERROR/)
  const { entries } = await read()
  assert.equal(new Set(entries.map(({ id }) => id)).size, entries.length)
  const refused = await api.call('GET /api/admin/logs?level=loud', { as: 'admin' })
  assert.deepEqual([refused.status, refused.body.message], [400, 'level must be one of: debug, info, warn, error'])
  for (const cursor of ['x', '0', 'ffffffff', 'ffffffff-', `${'ffffffff-1,'.repeat(300)}ffffffff-1`]) {
    const bad = await api.call(`GET /api/admin/logs?after=${cursor}`, { as: 'admin' })
    assert.deepEqual([bad.status, bad.body.error], [400, 'invalid_cursor'], cursor)
  }
})

test('log entries since a time are those from then on', async () => {
  await api.call('GET /api/since/1')
  const [first] = await eventually(async () => {
    const { entries } = await read('?search=since/1')
    assert.equal(entries.length, 1)
    return entries
  })
  const at = async (since: string) => pathsOf(await read(`?search=since/1&since=${encodeURIComponent(since)}`))
  const time = Date.parse(first?.time ?? '')
  assert.deepEqual(await at(new Date(time).toISOString()), ['/api/since/1'])
  assert.deepEqual(await at(new Date(time + 1).toISOString()), [])
  assert.deepEqual(await at(new Date(time + 86_400_000).toISOString().slice(0, 10)), [])
  const refused = await api.call('GET /api/admin/logs?since=yesterday', { as: 'admin' })
  assert.deepEqual([refused.status, refused.body.message], [400, 'invalid since'])
})

test('following hears each entry once, as soon as it is there, and not itself', async () => {
  const { next } = await read()
  const wanted = read(`?after=${next}&wait=20&search=later`)
  await api.call('GET /api/later/1')
  const first = await wanted
  assert.deepEqual(pathsOf(first), ['/api/later/1'])
  assert.deepEqual(pathsOf(await read(`?after=${first.next}&search=later`)), [])
  assert.deepEqual(
    pathsOf(await read(`?after=${first.next}`)).filter((path) => path === '/api/admin/logs'),
    [],
  )
  await api.call('GET /api/later/2')
  assert.deepEqual(pathsOf(await read(`?after=${first.next}&wait=20&search=later`)), ['/api/later/2'])
})

test('who signs out while waiting hears nothing more', async () => {
  const json = { password: 'correct horse battery staple' }
  const { token } = (await api.call('POST /api/admin/auth', { json })).body
  const { next } = await read()
  const waiting = api.call(`GET /api/admin/logs?after=${next}&wait=20&search=secret-thing`, { as: token })
  await api.call('POST /api/admin/auth/logout', { as: token })
  await api.call('GET /api/secret-thing')
  const { status, text } = await waiting
  assert.deepEqual([status, text.includes('secret-thing')], [401, false])
})

test('a server that stops lets nobody wait', async () => {
  const other = await startServer({ on: api, config: { 'log.level': 'info' } })
  const { next } = (await other.call('GET /api/admin/logs', { as: 'admin' })).body
  const waiting = other.call(`GET /api/admin/logs?after=${next}&wait=20&search=never`, { as: 'admin' })
  await eventually(() => assert.ok(other.observations.some(({ message }) => message === 'request')))
  const began = performance.now()
  await Promise.all([waiting.catch(() => undefined), other.stop()])
  assert.ok(performance.now() - began < 15_000)
})
