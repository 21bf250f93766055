import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { type Receiver, startReceiver } from '../../../test/fakes/receiver.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
const receivers: Receiver[] = []
const receiver = async (answer?: Receiver['answer']): Promise<Receiver> => {
  const made = await startReceiver(answer)
  receivers.push(made)
  return made
}

before(async () => {
  api = await startServer({ config: { 'webhooks.retry_delays': [1, 1, 1] } })
  await api.sql(`create table posts (id serial primary key, title text);
    create table others (id serial primary key, title text);
    create schema app; create table app.posts (id int primary key);`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/others')).status, 200))
})
after(() => Promise.all(receivers.map((one) => one.close())))

const asAdmin = (line: Parameters<typeof api.call>[0], json?: unknown) =>
  api.call(line, { as: 'admin', ...(json !== undefined && { json }) })
const make = async (json: object) => {
  const { status, body } = await asAdmin('POST /api/webhooks', json)
  assert.equal(status, 201, JSON.stringify(body))
  return body
}
const post = (title: string, table = 'posts') =>
  api.call(`POST /api/collections/${table}`, { as: 'admin', json: { title } })
/** Then nothing is left that could still be delivered, or delivered again. */
const queueIsEmpty = () => eventually(async () => assert.equal((await api.sql('select from svc.queue')).length, 0))

test('a webhook is created, listed oldest first, changed and deleted, and never shows its secret', async () => {
  const one = await make({
    url: 'https://example.com/hook',
    secret: 'hush-hush',
    tables: ['posts'],
    events: ['delete', 'create'],
  })
  assert.deepEqual(Object.keys(one).sort(), [
    'createdAt',
    'enabled',
    'events',
    'hasSecret',
    'id',
    'tables',
    'updatedAt',
    'url',
  ])
  assert.match(one.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(
    { ...one, id: '', createdAt: '', updatedAt: '' },
    {
      id: '',
      url: 'https://example.com/hook',
      hasSecret: true,
      events: ['create', 'delete'],
      tables: ['posts'],
      enabled: true,
      createdAt: '',
      updatedAt: '',
    },
  )
  const two = await make({ url: 'https://example.com/2', events: [] })
  assert.deepEqual(two.events, ['create', 'update', 'delete'])
  assert.deepEqual([two.tables, two.enabled, two.hasSecret], [[], true, false])
  const list = await asAdmin('GET /api/webhooks')
  assert.deepEqual(
    list.body.map(({ id }: { id: string }) => id),
    [one.id, two.id],
  )
  assert.ok(!list.text.includes('hush'))
  assert.deepEqual((await asAdmin(`GET /api/webhooks/${one.id}`)).body, one)

  const kept = await asAdmin(`PATCH /api/webhooks/${one.id}`, { url: '', secret: '', enabled: false })
  assert.deepEqual([kept.status, kept.body.url, kept.body.hasSecret, kept.body.enabled], [200, one.url, true, false])
  const cleared = await asAdmin(`PATCH /api/webhooks/${one.id}`, { secret: null, events: [], tables: [] })
  assert.deepEqual(
    [cleared.body.hasSecret, cleared.body.events, cleared.body.tables],
    [false, ['create', 'update', 'delete'], []],
  )
  const stored = await api.sql(`select secret from svc.webhooks where id = '${one.id}'`)
  assert.equal(stored[0].secret, null)

  for (const { id } of [one, two]) {
    assert.equal((await asAdmin(`DELETE /api/webhooks/${id}`)).status, 204)
    assert.deepEqual((await asAdmin(`DELETE /api/webhooks/${id}`)).body, {
      code: 404,
      error: 'webhook_not_found',
      message: 'webhook not found',
    })
    for (const line of [
      `GET /api/webhooks/${id}`,
      `PATCH /api/webhooks/${id}`,
      `POST /api/webhooks/${id}/test`,
      `GET /api/webhooks/${id}/deliveries`,
    ] as const) {
      assert.deepEqual((await asAdmin(line)).body, {
        code: 404,
        error: 'webhook_not_found',
        message: 'webhook not found',
      })
    }
  }
})

test('a secret is stored encrypted', async () => {
  const { id } = await make({ url: 'https://example.com/hook', secret: 'whsec_c2VjcmV0' })
  const [{ secret }] = await api.sql(`select secret from svc.webhooks where id = '${id}'`)
  assert.match(secret, /^v1\./)
  assert.ok(!secret.includes('c2VjcmV0'))
  await asAdmin(`DELETE /api/webhooks/${id}`)
})

test('bad fields are refused by name', async () => {
  const refusals: [unknown, string][] = [
    [{}, 'url is required'],
    [{ url: '' }, 'url is required'],
    [{ url: 7 }, 'url must be a string'],
    [{ url: 'not a url' }, 'url must be an absolute http or https URL'],
    [{ url: 'ftp://x.test/' }, 'url must be an absolute http or https URL'],
    [{ url: '/relative' }, 'url must be an absolute http or https URL'],
    [{ url: 'https://me:pw@x.test/' }, 'url must not include embedded credentials'],
    [{ url: 'http://169.254.169.254/latest' }, 'url points to a forbidden address'],
    [{ url: 'https://x.test/', events: ['insert'] }, 'invalid event: insert (must be create, update, or delete)'],
    [{ url: 'https://x.test/', events: 'create' }, 'events must be an array of strings'],
    [{ url: 'https://x.test/', tables: [1] }, 'tables must be an array of strings'],
    [{ url: 'https://x.test/', enabled: 'yes' }, 'enabled must be a boolean'],
    [{ url: 'https://x.test/', secret: {} }, 'secret must be a string'],
    [[], 'invalid JSON body'],
  ]
  for (const [body, message] of refusals) {
    assert.deepEqual(
      (await asAdmin('POST /api/webhooks', body)).body,
      { code: 400, error: message === 'invalid JSON body' ? 'invalid_body' : 'validation_failed', message },
      JSON.stringify(body),
    )
  }
  assert.deepEqual((await asAdmin('GET /api/webhooks/7')).body, {
    code: 400,
    error: 'validation_failed',
    message: 'invalid webhook id format',
  })
  assert.equal((await api.call('GET /api/webhooks')).status, 401)
})

test('the test of an address where nothing can answer is a failure', async () => {
  for (const url of ['http://127.0.0.1:1/', 'http://localhost:9/', 'http://absent.invalid/']) {
    const { id } = await make({ url })
    const { status, body } = await asAdmin(`POST /api/webhooks/${id}/test`)
    assert.deepEqual([status, body.success], [200, false], url)
    await asAdmin(`DELETE /api/webhooks/${id}`)
  }
})

test('without leave for private networks every private address is refused at create and fails at connect', async () => {
  const strict = await startServer({ on: api, config: { 'webhooks.allow_private_networks': false } })
  for (const url of [
    'http://127.0.0.1/',
    'http://localhost/',
    'http://[::ffff:7f00:1]/',
    'http://0x7f.1/',
    'http://10.0.0.1/',
  ]) {
    const answer = await strict.call('POST /api/webhooks', { as: 'admin', json: { url } })
    assert.deepEqual(answer.body, {
      code: 400,
      error: 'validation_failed',
      message: 'url points to a forbidden address',
    })
  }
  const sink = await receiver()
  const { id } = await make({ url: sink.url, enabled: false })
  const tested = await strict.call(`POST /api/webhooks/${id}/test`, { as: 'admin' })
  assert.deepEqual([tested.body.success, tested.body.error], [false, 'blocked: address is not allowed'])
  assert.equal(sink.received.length, 0)
  await asAdmin(`DELETE /api/webhooks/${id}`)
  await strict.stop()
})

test('changes are delivered with the old row, and both signatures verify', async () => {
  const sink = await receiver()
  const secret = `whsec_${Buffer.from('0123456789abcdef01234567').toString('base64')}`
  const { id: hook } = await make({ url: `${sink.url}/path?q=1`, secret, tables: ['posts'] })
  const { body: record } = await post('first')
  await asAdmin(`PATCH /api/collections/posts/${record.id}`, { title: 'second' })
  await asAdmin(`DELETE /api/collections/posts/${record.id}`)
  await post('not for you', 'others')
  await eventually(() => assert.equal(sink.received.length, 3))

  const bodies = sink.received.map(({ body }) => JSON.parse(body)).sort((a, b) => a.action.localeCompare(b.action))
  assert.deepEqual(bodies, [
    { action: 'create', table: 'posts', record: { id: record.id, title: 'first' } },
    { action: 'delete', table: 'posts', record: { id: record.id }, old_record: { id: record.id, title: 'second' } },
    {
      action: 'update',
      table: 'posts',
      record: { id: record.id, title: 'second' },
      old_record: { id: record.id, title: 'first' },
    },
  ])
  const verifier = new Webhook(secret)
  for (const { headers, body, path } of sink.received) {
    assert.equal(path, '/path?q=1')
    assert.equal(headers['content-type'], 'application/json')
    assert.equal(headers['x-svc-event'], JSON.parse(body).action)
    assert.match(String(headers['user-agent']), /^Savanna\/\d/)
    assert.equal(headers['x-svc-signature'], createHmac('sha256', secret).update(body).digest('hex'))
    verifier.verify(body, headers as Record<string, string>)
    assert.throws(() => verifier.verify(`${body} `, headers as Record<string, string>))
    assert.throws(() => verifier.verify(body, { ...(headers as Record<string, string>), 'webhook-id': 'other' }))
    assert.throws(() =>
      verifier.verify(body, { ...(headers as Record<string, string>), 'webhook-timestamp': '1700000000' }),
    )
  }

  const page = await eventually(async () => {
    const { body } = await asAdmin(`GET /api/webhooks/${hook}/deliveries?perPage=2`)
    assert.equal(body.totalItems, 3)
    return body
  })
  assert.deepEqual([page.page, page.perPage, page.totalPages, page.items.length], [1, 2, 2, 2])
  const [newest] = page.items
  const sent = sink.received.find(({ headers }) => headers['x-svc-delivery'] === newest.id)
  assert.equal(sent?.headers['webhook-id'], newest.eventId)
  assert.deepEqual(
    { ...newest, id: '', eventId: '', durationMs: 0, deliveredAt: '' },
    {
      id: '',
      webhookId: hook,
      eventId: '',
      eventAction: JSON.parse(sent?.body ?? '{}').action,
      eventTable: 'posts',
      success: true,
      statusCode: 204,
      attempt: 1,
      durationMs: 0,
      requestBody: sent?.body,
      responseBody: '',
      deliveredAt: '',
    },
  )
  assert.deepEqual((await asAdmin(`GET /api/webhooks/${hook}/deliveries/${newest.id}`)).body, newest)
  assert.deepEqual((await asAdmin(`GET /api/webhooks/${hook}/deliveries/${hook}`)).body, {
    code: 404,
    error: 'delivery_not_found',
    message: 'delivery not found',
  })
  assert.deepEqual((await asAdmin(`GET /api/webhooks/${hook}/deliveries/x`)).body, {
    code: 400,
    error: 'validation_failed',
    message: 'invalid delivery id format',
  })
  const other = await make({ url: sink.url, enabled: false })
  assert.deepEqual((await asAdmin(`GET /api/webhooks/${other.id}/deliveries/${newest.id}`)).body, {
    code: 404,
    error: 'delivery_not_found',
    message: 'delivery not found',
  })
  for (const id of [hook, other.id]) await asAdmin(`DELETE /api/webhooks/${id}`)
})

test('what was committed before the webhook does not fire, what comes after does', async () => {
  const sink = await receiver()
  await post('before')
  const { id } = await make({ url: sink.url })
  await post('after')
  await eventually(() => assert.ok(sink.received.length > 0))
  assert.deepEqual(
    sink.received.map(({ body }) => JSON.parse(body).record.title),
    ['after'],
  )

  await asAdmin(`PATCH /api/webhooks/${id}`, { enabled: false })
  await post('asleep')
  await asAdmin(`PATCH /api/webhooks/${id}`, { enabled: true })
  await post('awake')
  await eventually(() => assert.equal(sink.received.length, 2))
  assert.equal(JSON.parse(sink.received[1]?.body ?? '{}').record.title, 'awake')
  await asAdmin(`DELETE /api/webhooks/${id}`)
})

test('a failed delivery is tried again with the same id and a fresh timestamp, then given up', async () => {
  const sink = await receiver((_request, response) => void response.writeHead(500).end('nope\0'.repeat(1000)))
  const { id } = await make({ url: sink.url, events: ['create'] })
  await post('retry me')
  await eventually(() => assert.equal(sink.received.length, 4))
  assert.equal(new Set(sink.received.map(({ headers }) => headers['webhook-id'])).size, 1)
  assert.equal(new Set(sink.received.map(({ headers }) => headers['x-svc-delivery'])).size, 4)
  assert.ok(new Set(sink.received.map(({ headers }) => headers['webhook-timestamp'])).size > 1)
  const { body } = await eventually(async () => {
    const answer = await asAdmin(`GET /api/webhooks/${id}/deliveries?failed_only=true`)
    assert.equal(answer.body.totalItems, 4)
    return answer
  })
  assert.deepEqual(
    body.items.map(({ attempt }: { attempt: number }) => attempt),
    [4, 3, 2, 1],
  )
  assert.equal(body.items[0].error, 'receiver answered 500')
  assert.ok(Buffer.byteLength(body.items[0].responseBody) <= 1024)
  await eventually(async () => assert.equal((await api.sql('select from svc.queue')).length, 0))
  assert.deepEqual((await asAdmin(`GET /api/webhooks/${id}/deliveries?failed_only=maybe`)).body, {
    code: 400,
    error: 'validation_failed',
    message: 'failed_only parameter must be a boolean',
  })
  await asAdmin(`DELETE /api/webhooks/${id}`)
})

test('Retry-After of a 429 is obeyed', async () => {
  const sink = await receiver((_request, response) => {
    const isFirst = sink.received.length === 1
    response.writeHead(isFirst ? 429 : 200, isFirst ? { 'retry-after': '3' } : {}).end()
  })
  const { id } = await make({ url: sink.url, events: ['create'] })
  await post('slowly')
  await eventually(() => assert.equal(sink.received.length, 2))
  const [first, second] = sink.received
  assert.ok((second?.at ?? 0) - (first?.at ?? 0) >= 2_900)
  await asAdmin(`DELETE /api/webhooks/${id}`)
})

test('a receiver that is gone (410) puts its webhook to sleep, which is said once, however many events were under way', async () => {
  const before = api.observations.length
  const waiting: (() => void)[] = []
  const sink = await receiver((_request, response) => {
    waiting.push(() => response.writeHead(410).end())
    if (waiting.length === 3) for (const answer of waiting) answer()
  })
  const { id } = await make({ url: sink.url, events: ['create'] })
  for (const title of ['one', 'two', 'three']) await post(title)
  await eventually(async () => assert.equal((await asAdmin(`GET /api/webhooks/${id}`)).body.enabled, false))
  await queueIsEmpty()
  assert.equal(sink.received.length, 3)
  const { body } = await asAdmin(`GET /api/webhooks/${id}/deliveries`)
  assert.deepEqual(new Set(body.items.map(({ statusCode }: { statusCode: number }) => statusCode)), new Set([410]))
  const said = () => api.observations.slice(before).map(({ message }) => message)
  await eventually(() => assert.deepEqual(said(), ['webhook disabled: its receiver is gone']))
  await asAdmin(`DELETE /api/webhooks/${id}`)
})

test('a disabled or deleted webhook gets nothing of what still waited', async () => {
  for (const stop of ['PATCH', 'DELETE'] as const) {
    const sink = await receiver((_request, response) => void response.writeHead(500).end())
    const { id } = await make({ url: sink.url, events: ['create'] })
    await post('one')
    await eventually(() => assert.ok(sink.received.length > 0))
    if (stop === 'PATCH') await asAdmin(`PATCH /api/webhooks/${id}`, { enabled: false })
    else await asAdmin(`DELETE /api/webhooks/${id}`)
    await queueIsEmpty()
    const heard = sink.received.length
    const marker = await receiver()
    const { id: markerId } = await make({ url: marker.url, events: ['create'] })
    await post('two')
    await eventually(() => assert.equal(marker.received.length, 1))
    await queueIsEmpty()
    assert.equal(sink.received.length, heard)
    await asAdmin(`DELETE /api/webhooks/${markerId}`)
    if (stop === 'PATCH') await asAdmin(`DELETE /api/webhooks/${id}`)
  }
})

test('the test call makes one signed attempt, whatever the enabled flag says, and leaves no delivery', async () => {
  const sink = await receiver()
  const { id } = await make({ url: sink.url, enabled: false, secret: 'plain' })
  const { status, body } = await asAdmin(`POST /api/webhooks/${id}/test`)
  assert.equal(status, 200)
  assert.deepEqual({ ...body, durationMs: 0 }, { success: true, statusCode: 204, durationMs: 0 })
  const [sent] = sink.received
  assert.equal(sent?.body, '{"action":"test","table":"_svc_test","record":{"message":"Test event from Savanna"}}')
  assert.equal(sent?.headers['x-svc-event'], 'test')
  new Webhook('plain', { format: 'raw' }).verify(sent?.body ?? '', sent?.headers as Record<string, string>)
  sink.answer = (_request, response) => void response.writeHead(302, { location: '/x' }).end()
  const moved = (await asAdmin(`POST /api/webhooks/${id}/test`)).body
  assert.deepEqual(
    { ...moved, durationMs: 0 },
    { success: false, statusCode: 302, durationMs: 0, error: 'receiver answered 302' },
  )
  await sink.close()
  const down = (await asAdmin(`POST /api/webhooks/${id}/test`)).body
  assert.deepEqual({ ...down, durationMs: 0 }, { success: false, durationMs: 0, error: 'connection refused' })
  assert.equal((await asAdmin(`GET /api/webhooks/${id}/deliveries`)).body.totalItems, 0)
  await asAdmin(`DELETE /api/webhooks/${id}`)
})

test('receivers that hang, drip or flood do not delay the others', async () => {
  const hang = await receiver(() => {})
  const drip = await receiver((_request, response) => {
    response.writeHead(200)
    const timer = setInterval(() => response.write('.'), 100)
    response.on('close', () => clearInterval(timer))
  })
  const flood = await receiver((_request, response) => {
    response.writeHead(200)
    const more = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(65_536, 'x')));
      response.once('drain', more)
    }
    more()
  })
  const good = await receiver()
  const ids: string[] = []
  for (const { url } of [hang, drip, flood]) ids.push((await make({ url, events: ['create'] })).id)
  for (let i = 0; i < 10; i++) ids.push((await make({ url: `${good.url}/${i}`, events: ['create'] })).id)
  for (let i = 0; i < 12; i++) await post(`load ${i}`)
  // While the others are still waited for.
  await eventually(() => assert.equal(good.received.length, 120))
  for (const id of ids) await asAdmin(`DELETE /api/webhooks/${id}`)
})

test('two servers on one database deliver each event once', async () => {
  const there = await startServer({ on: api })
  const sink = await receiver()
  const { id } = await make({ url: sink.url, events: ['create'] })
  for (let i = 0; i < 20; i++)
    await (i % 2 ? api : there).call('POST /api/collections/posts', { as: 'admin', json: { title: `x${i}` } })
  await eventually(() => assert.equal(sink.received.length, 20))
  await queueIsEmpty()
  assert.equal(new Set(sink.received.map(({ headers }) => headers['webhook-id'])).size, 20)
  assert.equal(sink.received.length, 20)
  await asAdmin(`DELETE /api/webhooks/${id}`)
  await there.stop()
})

test('admin writes leave audit entries without secrets, and metrics count attempts', async () => {
  const { id } = await make({ url: 'https://example.com/', secret: 'do-not-log-me' })
  const rows = await api.sql(`select * from svc.audit_log where action = 'webhook.create'`)
  assert.ok(rows.length > 0)
  assert.ok(!JSON.stringify(rows).includes('do-not-log-me'))
  assert.ok(!JSON.stringify(api.observations).includes('do-not-log-me'))
  const { text } = await asAdmin('GET /metrics')
  assert.match(text, /^svc_webhook_attempts_total\{result="success"\} [1-9]/m)
  assert.match(text, /^svc_webhook_queue \d/m)
  assert.match(text, /^svc_change_log_lag_seconds \d/m)
  assert.match(text, /^svc_realtime_connections 0$/m)
  await asAdmin(`DELETE /api/webhooks/${id}`)
})
