import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../../db/protocol/driver.ts'
import { groupSizes } from '../../db/queue/rows.ts'
import type { Sql } from '../../db/sql.ts'
import { deliveriesOf } from './sql.ts'

test('a page of deliveries and the size of the queue are read from indexes, however many there are', async () => {
  const api = await startServer()
  const { body: hook } = await api.call('POST /api/webhooks', {
    as: 'admin',
    json: { url: 'https://x.test/', enabled: false },
  })
  await api.sql(`
    insert into svc.webhook_deliveries (webhook_id, event_id, event_action, event_table, success, attempt, duration_ms, request_body, response_body)
    select '${hook.id}', n::text, 'create', 't', n % 100 > 0, 1, 1, repeat(md5(n::text), 30), '' from generate_series(1, 20000) n;
    insert into svc.queue (kind, group_key, payload, run_at)
    select 'sized', 'g' || n % 3, '{}', now() + interval '1 day' from generate_series(1, 33000) n;
  `)
  const client = await openConnection({ url: api.databaseUrl })
  await client.query('vacuum analyze svc.webhook_deliveries; ').catch(() => undefined)
  const planOf = async (statement: Sql): Promise<string> => {
    const { text, values } = statement.render()
    const { rows } = await client.query(`explain (analyze, buffers, costs off, timing off) ${text}`, [
      ...values,
    ] as unknown[])
    return rows.map((row) => String(row['QUERY PLAN'])).join('\\n')
  }
  for (const failedOnly of [false, true]) {
    const plan = await planOf(deliveriesOf(hook.id, { failedOnly, limit: 30, offset: 60 }))
    assert.doesNotMatch(plan, /Seq Scan on webhook_deliveries|temp read|temp written/, plan)
  }
  assert.doesNotMatch(await planOf(groupSizes('sized')), /Seq Scan on queue|temp read|temp written/)
  const { rows } = await client.query(groupSizes('sized').render().text, [
    ...groupSizes('sized').render().values,
  ] as unknown[])
  assert.deepEqual(
    rows.map((row) => [row['group'], Number(row['size'])]),
    [
      ['g0', 10_000],
      ['g1', 10_000],
      ['g2', 10_000],
    ],
  )
  await client.end()
  const { body } = await api.call(`GET /api/webhooks/${hook.id}/deliveries?failed_only=true&page=2&perPage=50`, {
    as: 'admin',
  })
  assert.deepEqual([body.totalItems, body.items.length], [200, 50])
})
