import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { observations } from '../../src/core/observations.ts'
import { startServer } from '../kit/kit.ts'

test('dashboard and alerts ask for metrics, states and messages that there are', async () => {
  const api = await startServer()
  const { text } = await api.call('GET /metrics', { as: 'admin' })
  const known = new Set([...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name))
  const states = new Set([...text.matchAll(/svc_db_pool_connections\{state="(\w+)"\}/g)].map(([, state]) => state))
  const dashboard = JSON.parse(readFileSync('docs/monitoring/grafana.json', 'utf8'))
  assert.ok(dashboard.panels.length >= 9)
  for (const asked of [JSON.stringify(dashboard), readFileSync('docs/monitoring/alerts.yml', 'utf8')]) {
    const plain = asked.replaceAll('\\"', '"')
    for (const [name] of plain.matchAll(/\bsvc_\w+/g)) assert.ok(known.has(name.replace(/_bucket$/, '')), name)
    for (const [, state] of plain.matchAll(/connections\{state="(\w+)"/g)) assert.ok(states.has(state), state)
    for (const [, message = ''] of plain.matchAll(/message="([^"]+)"/g)) assert.ok(message in observations, message)
  }
})
