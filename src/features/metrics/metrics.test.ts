import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

test('metrics are for the admin and for the holder of metrics.auth_token', async () => {
  const api = await startServer({ config: { 'metrics.auth_token': 'scrape-me' } })
  for (const as of [undefined, 'wrong', '0'.repeat(64)]) {
    const { status, body } = await api.call('GET /metrics', as === undefined ? {} : { as })
    assert.equal(status, 401)
    assert.deepEqual(body, { code: 401, error: 'admin_required', message: 'admin authentication required' })
  }
  assert.equal((await api.call('GET /metrics', { as: 'admin' })).status, 200)
  assert.equal((await api.call('GET /metrics', { as: 'scrape-me' })).status, 200)
})

test('requests are counted by route pattern, never by path', async () => {
  const api = await startServer()
  await api.call('GET /health')
  await api.call('GET /health')
  await api.call('GET /no/such/path?token=s3cret')
  const { text, headers } = await api.call('GET /metrics', { as: 'admin' })
  assert.match(headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
  assert.match(text, /^svc_http_requests_total\{method="GET",route="\/health",status="200"\} 2$/m)
  assert.match(text, /^svc_http_requests_total\{method="GET",route="unmatched",status="404"\} 1$/m)
  assert.match(text, /^svc_http_request_duration_seconds_count\{method="GET",route="\/health"\} 2$/m)
  assert.match(text, /^svc_db_pool_connections\{state="idle"\} \d+$/m)
  assert.match(text, /^svc_hash_queue 0$/m)
  for (const name of ['process_cpu_seconds_total{mode="user"}', 'process_resident_memory_bytes', 'process_open_fds']) {
    assert.ok(Number(text.split(`\n${name} `)[1]?.split('\n')[0]) > 0, name)
  }
  assert.match(text, /^nodejs_eventloop_lag_seconds\{quantile="0.99"\} [\d.e-]+$/m)
  assert.doesNotMatch(text, /such|s3cret/)
})

test('metrics that are switched off are not there', async () => {
  const api = await startServer({ config: { 'metrics.enabled': false } })
  assert.equal((await api.call('GET /metrics', { as: 'admin' })).status, 404)
})
