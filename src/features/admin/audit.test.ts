import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { auditStatement } from '../../db/audit.ts'
import { auditableQuery } from './audit.ts'

const api = await startServer()
const audit = async (query = '') => (await api.call(`GET /api/admin/audit${query}`, { as: 'admin' })).body
const sql = (query: string) => api.call('POST /api/admin/sql', { as: 'admin', json: { query } })

test('admin SQL leaves its text in the trail, and none when it failed and left nothing else', async () => {
  await sql('select 42 as answer')
  await api.sql('create table kept (v int); insert into kept values (1), (1)')
  for (const query of [
    'select 1/0',
    'select 1/0; ',
    'selec 1; commit',
    'create table kept ()',
    'delete from kept where v = 1/0',
  ])
    assert.equal((await sql(query)).status, 400, query)
  const { items, count, limit, offset } = await audit('?action=sql.execute')
  assert.deepEqual([count, limit, offset], [1, 100, 0])
  const [done] = items
  assert.deepEqual(done.new_values, { query: 'select 42 as answer' })
  assert.equal(done.actor, 'admin')
  assert.equal(done.action, 'sql.execute')
  assert.match(done.id, /^[0-9a-f-]{36}$/)
  assert.match(done.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
  assert.match(done.ip_address, /127\.0\.0\.1/)
  assert.ok(!('user_id' in done) && !('old_values' in done))
})

test('admin SQL that failed and may have left something is in the trail', async () => {
  const failing = [
    ['insert into kept values (7); commit; select 1/0', 'division by zero'],
    ["do $$ begin insert into kept values (8); commit; raise 'no'; end $$", 'no'],
    ["do $$ begin commit; execute 'selec 1'; end $$", 'syntax error at or near "selec"'],
    ['create unique index concurrently half on kept (v)', 'could not create unique index "half"'],
  ]
  for (const [query = '', error] of failing) {
    assert.equal((await sql(query)).status, 400)
    const { items } = await audit('?action=sql.execute&limit=1')
    assert.deepEqual(items[0].new_values, { query, error })
  }
  assert.deepEqual(await api.sql('select v from kept where v > 1 order by v'), [{ v: '7' }, { v: '8' }])
  assert.equal((await api.sql(`select from pg_class where relname = 'half'`)).length, 1)
})

test('an effect that no transaction holds is in the trail while it runs, with an outcome that nobody knows yet', async () => {
  await api.sql('select pg_advisory_lock(717)')
  const query = 'select pg_advisory_xact_lock(717)'
  const running = sql(query)
  const newest = async () => (await audit('?action=sql.execute&limit=1')).items[0].new_values
  await eventually(async () => assert.deepEqual(await newest(), { query, outcome: 'unknown' }))
  await api.sql('select pg_advisory_unlock(717)')
  assert.equal((await running).status, 200)
  assert.deepEqual(await newest(), { query })
})

test('secrets do not get into the trail', () => {
  const { values } = auditStatement({
    who: { kind: 'system' },
    action: 'x',
    target: '',
    ip: '',
    newValues: {
      name: 'a',
      password: 'p',
      nested: { clientSecret: 's', token_hash: 'h' },
      api_key: 'k',
      key: 'k',
      totp_enabled: true,
    },
  }).render()
  assert.deepEqual(JSON.parse(String(values.find((value) => String(value).startsWith('{')))), {
    name: 'a',
    password: '***',
    nested: { clientSecret: '***', token_hash: '***' },
    api_key: '***',
    key: '***',
    totp_enabled: true,
  })
  assert.equal(auditableQuery(`alter role x PASSWORD 'it''s'; select 1`), `alter role x PASSWORD '***'; select 1`)
  assert.equal(auditableQuery(`create user x password $q$y$q$ login`), `create user x password '***' login`)
})

test('logs are the newest entries of the ring buffer, and stats are numbers', async () => {
  const logs = await api.call('GET /api/admin/logs', { as: 'admin' })
  assert.equal(logs.status, 200)
  assert.ok(Array.isArray(logs.body.entries))
  const off = await startServer({ config: { 'log.buffer_size': 0 } })
  assert.deepEqual((await off.call('GET /api/admin/logs', { as: 'admin' })).body, {
    entries: [],
    message: 'log buffer is off',
  })
  const { body } = await api.call('GET /api/admin/stats', { as: 'admin' })
  assert.match(body.version, /^\d+\.\d+\.\d+/)
  assert.equal(body.node_version, process.version)
  for (const name of [
    'uptime_seconds',
    'goroutines',
    'memory_alloc',
    'memory_sys',
    'gc_cycles',
    'db_pool_total',
    'db_pool_idle',
    'db_pool_in_use',
    'db_pool_max',
    'db_connections',
    'db_connections_max',
  ]) {
    assert.equal(typeof body[name], 'number', name)
  }
  assert.equal(body.db_pool_max, 8)
  assert.ok(body.db_connections > body.db_pool_total, 'the one that listens is beside the pool')
  assert.equal(body.db_connections_max, 8 + 1 + 7, 'and live lists have their own')
})

test('the entry of a change or removal has what was before, without secrets', async () => {
  const admin = async (line: string, json?: unknown) => {
    const answer = await api.call(line as 'GET /', { as: 'admin', ...(json !== undefined && { json }) })
    assert.ok(answer.status < 300, `${line}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  const ana = await api.signUp('before@x.test')
  await api.sql('create materialized view sums as select 1 as one')
  const [hook, app, site, schedule, view] = [
    await admin('POST /api/webhooks', { url: 'https://old.test/', secret: 'hush hush' }),
    await admin('POST /api/admin/apps', { name: 'old', ownerUserId: ana.user.id }),
    await admin('POST /api/admin/sites', { name: 'old', slug: 'old' }),
    await admin('POST /api/admin/schedules', {
      name: 'old',
      jobType: 'http',
      cronExpr: '0 0 1 1 *',
      payload: { a: 'hush' },
    }),
    await admin('POST /api/admin/matviews', { viewName: 'sums' }),
  ]
  await admin('POST /api/admin/storage/buckets', { name: 'old' })
  await admin('PUT /api/admin/email/templates/app.old', { subjectTemplate: 'old', htmlTemplate: 'x' })
  for (const [action, line, json, old] of [
    ['webhook.update', `PATCH /api/webhooks/${hook.id}`, { url: 'https://new.test/' }, { url: 'https://old.test/' }],
    ['webhook.delete', `DELETE /api/webhooks/${hook.id}`, undefined, { url: 'https://new.test/', hasSecret: true }],
    ['app.update', `PUT /api/admin/apps/${app.id}`, { name: 'new' }, { name: 'old' }],
    ['app.delete', `DELETE /api/admin/apps/${app.id}`, undefined, { name: 'new' }],
    ['site.update', `PUT /api/admin/sites/${site.id}`, { name: 'new' }, { name: 'old' }],
    ['site.delete', `DELETE /api/admin/sites/${site.id}`, undefined, { name: 'new', slug: 'old' }],
    ['schedule.update', `PUT /api/admin/schedules/${schedule.id}`, { maxAttempts: 9 }, { name: 'old', maxAttempts: 3 }],
    ['schedule.delete', `DELETE /api/admin/schedules/${schedule.id}`, undefined, { name: 'old', maxAttempts: 9 }],
    [
      'matview.update',
      `PUT /api/admin/matviews/${view.id}`,
      { refreshMode: 'concurrent' },
      { refreshMode: 'standard' },
    ],
    ['matview.delete', `DELETE /api/admin/matviews/${view.id}`, undefined, { refreshMode: 'concurrent' }],
    ['bucket.update', 'PUT /api/admin/storage/buckets/old', { public: false }, { public: true }],
    ['bucket.delete', 'DELETE /api/admin/storage/buckets/old', undefined, { public: false }],
    [
      'email_template.update',
      'PUT /api/admin/email/templates/app.old',
      { subjectTemplate: 'new', htmlTemplate: 'x' },
      { subjectTemplate: 'old' },
    ],
    ['email_template.delete', 'DELETE /api/admin/email/templates/app.old', undefined, { subjectTemplate: 'new' }],
  ] as const) {
    await admin(line, json)
    const [{ action: newest, old_values: values }] = (await audit('?limit=1')).items
    const shown = Object.fromEntries(Object.keys(old).map((name) => [name, values?.[name]]))
    assert.deepEqual([newest, shown], [action, old])
    assert.ok(!JSON.stringify(values).includes('hush'), `${action} shows a secret`)
  }
})
