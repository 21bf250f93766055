import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { eventually, startServer } from '../../../../test/kit/kit.ts'

const api = await startServer({ config: { 'storage.user_quota_bytes': '100KB', 'storage.ownerless_quota': '200KB' } })
const ada = await api.signUp('ada@example.test')
await api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name: 'ruled', access: 'policies' } })
await api.sql('create policy own on svc.objects using (owner = svc.uid())')
const TUS = { 'tus-resumable': '1.0.0' }
const OCTETS = { 'content-type': 'application/offset+octet-stream' }
const begin = (bucket: string, name: string, length: number, as = ada.token) =>
  api.call(`POST /api/storage/tus/${bucket}`, {
    ...(as && { as }),
    headers: {
      ...TUS,
      'upload-length': String(length),
      'upload-metadata': `filename ${Buffer.from(name).toString('base64')}`,
    },
  })
const locationOf = ({ headers }: { headers: Headers }) => headers.get('location') as `/${string}`
const patch = (at: `/${string}`, offset: number, body: string, as = ada.token) =>
  api.call(`PATCH ${at}`, {
    ...(as && { as }),
    body,
    headers: { ...TUS, ...OCTETS, 'upload-offset': String(offset) },
  })
const offsetOf = async (at: `/${string}`) =>
  Number((await api.call(`HEAD ${at}`, { as: ada.token, headers: TUS })).headers.get('upload-offset'))
const counted = async () =>
  Number(
    (await api.sql(`select coalesce(sum(bytes), 0)::int as n from svc.stored_bytes where key = $1`, [ada.user.id]))[0]
      .n,
  )

test('declared lengths count for their owner from the beginning, and once', async () => {
  const at = locationOf(await begin('open', 'a', 60_000))
  assert.equal(await counted(), 60_000)
  assert.equal((await begin('open', 'b', 60_000)).status, 413)
  assert.equal((await api.call('PUT /api/storage/open/b', { as: ada.token, body: 'x'.repeat(60_000) })).status, 413)
  assert.equal((await patch(at, 0, 'x'.repeat(60_000))).status, 204)
  assert.equal(await counted(), 60_000)
  await api.call('DELETE /api/storage/open/a', { as: ada.token })
  assert.equal(await counted(), 0)
  const ruled = locationOf(await begin('ruled', 'a', 60_000))
  assert.equal((await begin('ruled', 'b', 60_000)).status, 413)
  assert.equal((await patch(ruled, 0, 'x'.repeat(60_000))).status, 204)
  assert.equal(await counted(), 60_000)
  await api.call('DELETE /api/storage/ruled/a', { as: ada.token })
  const given = locationOf(await begin('open', 'c', 90_000))
  await api.call(`DELETE ${given}`, { as: ada.token, headers: TUS })
  assert.equal(await counted(), 0)
  assert.equal((await begin('open', 'v1', 150_000, '')).status, 201)
  assert.equal((await begin('open', 'v2', 150_000, '')).status, 507)
})

test('a length beyond the disk is 507, before a byte is sent', async () => {
  const full = await startServer({ on: api, config: { 'storage.disk_reserve': 10 ** 15 } })
  const { status } = await full.call('POST /api/storage/tus/open', {
    as: 'admin',
    headers: { ...TUS, 'upload-length': '10', 'upload-metadata': 'filename eA==' },
  })
  assert.equal(status, 507)
})

test('more bytes than the length are refused, and the upload is as before', async () => {
  const at = locationOf(await begin('open', 'more', 10))
  assert.equal((await patch(at, 0, 'x'.repeat(11))).status, 413)
  assert.equal(await offsetOf(at), 0)
  assert.equal((await patch(at, 0, 'x'.repeat(10))).status, 204)
})

test('an upload of too many parts is told so, and not that another goes on with it', async () => {
  const at = locationOf(await begin('open', 'crumbs', 10))
  await api.sql(`update svc.uploads set parts = 10000 where name = 'crumbs'`)
  const { status, body } = await patch(at, 0, 'x')
  assert.deepEqual([status, body.message], [413, 'too many parts: begin again with larger chunks'])
})

/** A PATCH whose body is sent by hand. */
async function slowly(at: string, offset: number, length: number) {
  const { hostname, port } = new URL(api.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  const lines = [`PATCH ${at} HTTP/1.1`, 'host: x', `authorization: Bearer ${ada.token}`, 'tus-resumable: 1.0.0']
  lines.push('content-type: application/offset+octet-stream', `upload-offset: ${offset}`, `content-length: ${length}`)
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  return socket
}

test('what was read before a cut is kept, to the byte, and the upload goes on there', async () => {
  const at = locationOf(await begin('open', 'cut', 50_000))
  const whole = Array.from({ length: 5_000 }, (_, i) => String(i).padStart(10, '.')).join('')
  // What the server had not read yet when the connection went is sent again.
  await eventually(async () => {
    const offset = await offsetOf(at)
    const socket = await slowly(at, offset, 50_000 - offset)
    const isAtWork = async () => (await api.sql(`select writer from svc.uploads where name = 'cut'`))[0].writer !== null
    await eventually(async () => assert.ok(await isAtWork()))
    await new Promise((resolve) => socket.write(whole.slice(offset, offset + 7_777), resolve))
    await api.sql('select pg_sleep(0.02)')
    socket.destroy()
    await eventually(async () => assert.ok((await offsetOf(at)) > 0))
  })
  const offset = await offsetOf(at)
  assert.equal((await patch(at, offset, whole.slice(offset))).status, 204)
  const { text } = await api.call('GET /api/storage/open/cut', { as: ada.token })
  assert.equal(text, whole)
})

test('who goes on takes over: a request that hangs adds nothing any more', async () => {
  const at = locationOf(await begin('open', 'over', 1_000))
  const hanging = await slowly(at, 0, 1_000)
  hanging.write('a'.repeat(300))
  await eventually(async () => {
    const [row] = await api.sql(`select writer from svc.uploads where name = 'over'`)
    assert.ok(row.writer)
  })
  assert.equal((await patch(at, 0, 'b'.repeat(600))).status, 204)
  const answer = new Promise<string>((resolve) => hanging.once('data', (data) => resolve(String(data))))
  hanging.write('a'.repeat(700))
  assert.match(await answer, /^HTTP\/1\.1 409/)
  hanging.destroy()
  assert.equal(await offsetOf(at), 600)
  assert.equal((await patch(at, 600, 'c'.repeat(400))).status, 204)
  const { text } = await api.call('GET /api/storage/open/over', { as: ada.token })
  assert.equal(text, 'b'.repeat(600) + 'c'.repeat(400))
})

test('ten requests at one offset: one is taken, the file has its bytes once', async () => {
  const at = locationOf(await begin('open', 'raced', 4_000))
  const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => patch(at, 0, String(i).repeat(4_000))))
  const good = answers.flatMap(({ status }, i) => (status === 204 ? [i] : []))
  assert.equal(good.length, 1)
  assert.ok(answers.every(({ status }) => status === 204 || status === 409))
  const { text } = await api.call('GET /api/storage/open/raced', { as: ada.token })
  assert.equal(text, String(good[0]).repeat(4_000))
})

test('what no upload has is removed, and nothing else', async () => {
  await api.sql(`update svc.queue set run_at = now() where kind = 'blobs.remove'`)
  await eventually(async () => {
    const [{ count }] = await api.sql(`select count(*)::int as count from svc.blobs b
      where not exists (select from svc.objects o where o.blob_id = b.id)
        and not exists (select from svc.upload_parts p where p.blob_id = b.id)`)
    assert.equal(Number(count), 0)
  })
})
