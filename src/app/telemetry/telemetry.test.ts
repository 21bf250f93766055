import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { atEnd } from '../../../test/kit/at-end.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { seriesOf } from './otlp-metrics.ts'

type Attribute = { key: string; value: { stringValue?: string; intValue?: number } }
type Span = {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  attributes: Attribute[]
}
type MetricData = {
  name: string
  sum?: unknown
  gauge?: unknown
  histogram?: { dataPoints: { bucketCounts: unknown[] }[] }
}

/** What a collector receives, and a receiver of webhooks beside it. */
async function startCollector() {
  const spans: Span[] = []
  const metrics = new Map<string, MetricData>()
  const webhooks: (string | undefined)[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => {
      if (request.url === '/v1/traces') {
        for (const { scopeSpans } of JSON.parse(text).resourceSpans)
          for (const one of scopeSpans) spans.push(...one.spans)
      } else if (request.url === '/v1/metrics') {
        for (const { scopeMetrics } of JSON.parse(text).resourceMetrics) {
          for (const one of scopeMetrics) for (const metric of one.metrics) metrics.set(metric.name, metric)
        }
      } else webhooks.push(request.headers['traceparent'] as string | undefined)
      response.end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans, metrics, webhooks }
}

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'

test('a request, its flights and the webhook it causes are spans, and the metrics are sent', async () => {
  const collector = await startCollector()
  const config = { 'telemetry.otlp_endpoint': collector.url, 'webhooks.allow_private_networks': true }
  const api = await startServer({ config })
  await api.sql('create table notes (id int primary key, title text)')
  const headers = { traceparent: `00-${TRACE}-${PARENT}-01` }
  await eventually(async () => {
    const { status } = await api.call('GET /api/collections/notes', { headers })
    assert.equal(status, 200)
  })
  const hook = { url: `${collector.url}/hook`, events: ['create'], tables: ['notes'] }
  assert.equal((await api.call('POST /api/webhooks', { as: 'admin', json: hook })).status, 201)
  const made = await api.call('POST /api/collections/notes', { json: { id: 1, title: 'secret words' }, headers })
  assert.equal(made.status, 201)
  await eventually(() => assert.equal(collector.webhooks.length, 1))
  const [sent = ''] = collector.webhooks
  assert.match(sent, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`), 'it goes on with the trace of what it reports')
  // A traceparent that is none begins a trace of its own.
  await api.call('GET /api/collections/notes?page=2', { headers: { traceparent: `00-${'0'.repeat(32)}-${PARENT}-01` } })
  // The stop sends what is left.
  await api.stop()

  const requests = collector.spans.filter(({ traceId, kind }) => traceId === TRACE && kind === 2)
  const create = requests.find(({ name }) => name === 'POST /api/collections/{table}')
  assert.equal(create?.parentSpanId, PARENT)
  const webhook = collector.spans.find(({ spanId }) => spanId === sent.slice(36, 52))
  assert.deepEqual([webhook?.kind, webhook?.traceId, webhook?.parentSpanId], [3, TRACE, create.spanId])
  const list = requests.find(({ name }) => name === 'GET /api/collections/{table}')
  assert.ok(list)
  const flights = collector.spans.filter(({ parentSpanId }) => parentSpanId === list.spanId).map(({ name }) => name)
  assert.ok(
    flights.some((name) => /^select .*notes/.test(name)),
    JSON.stringify(flights),
  )
  assert.ok(!JSON.stringify(collector.spans).includes('secret words'), 'never a value')
  assert.ok(collector.spans.some(({ name, traceId }) => name === 'GET /api/collections/{table}' && traceId !== TRACE))
  assert.ok(collector.spans.some(({ name, kind }) => kind === 3 && name.startsWith('POST 127.0.0.1')))
  const known = [...collector.metrics.keys()]
  for (const name of ['svc_http_requests_total', 'svc_http_request_duration_seconds', 'svc_db_pool_connections']) {
    assert.ok(known.includes(name), `${name} is not among ${known}`)
  }
  const durations = collector.metrics.get('svc_http_request_duration_seconds')?.histogram?.dataPoints ?? []
  assert.ok(durations.length > 0 && durations.every(({ bucketCounts }) => bucketCounts.length > 5))
})

test('a collector that is away costs no request', async () => {
  const api = await startServer({ config: { 'telemetry.otlp_endpoint': 'http://127.0.0.1:1' } })
  assert.equal((await api.call('GET /health')).status, 200)
  assert.equal((await api.call('GET /api/admin/status', { as: 'admin' })).status, 200)
})

test('labels of the exposition are read back', () => {
  assert.deepEqual(seriesOf('a_total{x="1",y="q\\"\\\\\\n"}'), { name: 'a_total', attributes: { x: '1', y: 'q"\\\n' } })
  assert.deepEqual(seriesOf('a_total'), { name: 'a_total', attributes: {} })
})
