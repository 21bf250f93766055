import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics, exposition } from './metrics.ts'

test('counters, gauges and histograms are written as Prometheus reads them', () => {
  const metrics = createMetrics()
  const requests = metrics.counter('requests_total', 'Requests.', ['route', 'status'])
  requests.add(['/a', '200'])
  requests.add(['/a', '200'], 2)
  requests.add(['/"b"\n', '404'])
  metrics.gauge('queue', 'Waiting.', [], () => 7)
  metrics.gauge('pool', 'Connections.', ['state'], () => [{ labels: ['idle'], value: 2 }])
  const seconds = metrics.histogram('seconds', 'Time.', ['route'], [0.1, 1])
  for (const value of [0.05, 0.1, 0.5, 5]) seconds.record(['/a'], value)

  assert.deepEqual(exposition([metrics.samples()]).split('\n'), [
    '# HELP requests_total Requests.',
    '# TYPE requests_total counter',
    'requests_total{route="/a",status="200"} 3',
    'requests_total{route="/\\"b\\"\\n",status="404"} 1',
    '# HELP queue Waiting.',
    '# TYPE queue gauge',
    'queue 7',
    '# HELP pool Connections.',
    '# TYPE pool gauge',
    'pool{state="idle"} 2',
    '# HELP seconds Time.',
    '# TYPE seconds histogram',
    'seconds_bucket{route="/a",le="0.1"} 2',
    'seconds_bucket{route="/a",le="1"} 3',
    'seconds_bucket{route="/a",le="+Inf"} 4',
    'seconds_sum{route="/a"} 5.65',
    'seconds_count{route="/a"} 4',
    '',
  ])
})

test('a metric is announced once', () => {
  const metrics = createMetrics()
  metrics.gauge('x', 'X.', [], () => 0)
  assert.throws(() => metrics.counter('x', 'X.', []), /duplicate metric: x/)
})

test('metrics of several processes are one: what each counts is added, what all see is not', () => {
  const process = (requests: number, jobs: number) => {
    const metrics = createMetrics()
    metrics.counter('requests', 'r', ['route']).add(['/a'], requests)
    metrics.gauge('streams', 's', [], () => requests)
    metrics.gauge('jobs', 'j', ['state'], () => [{ labels: ['queued'], value: jobs }], 'max')
    return metrics.samples()
  }
  const text = exposition([process(3, 7), process(4, 6)])
  assert.match(text, /^requests\{route="\/a"\} 7$/m)
  assert.match(text, /^streams 7$/m)
  assert.match(text, /^jobs\{state="queued"\} 7$/m)
  assert.equal(text.match(/# TYPE requests counter/g)?.length, 1)
})
