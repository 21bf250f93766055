import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startReceiver } from '../../../test/fakes/receiver.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'jobs.worker_concurrency': 4 } })
const asAdmin = { as: 'admin' }
const queue = async (json: object) => (await api.call('POST /api/admin/jobs', { ...asAdmin, json })).body.id as string
const become = (id: string, state: string) =>
  eventually(async () => {
    const { body } = await api.call(`GET /api/admin/jobs/${id}`, asAdmin)
    assert.equal(body.state, state)
    return body
  })
const ends = async (json: object, state = 'failed') => become(await queue({ maxAttempts: 1, ...json }), state)
const sqlJob = (payload: object) => ends({ type: 'sql', payload })

await api.sql(`
  create table public.calls (who text, n int);
  grant insert on public.calls to svc_anon, svc_authenticated;
  create function public.note(n int, extra text default '') returns text language sql
    as $$ insert into calls values (current_user, n); select current_user || extra $$;
  create function public.leaves() returns text language plpgsql
    as $$ begin perform set_config('role', 'none', true); return (select rolsuper::text from pg_roles where rolname = current_user); end $$;
  create function public.fails() returns void language plpgsql as $$ begin raise exception 'the moon is full'; end $$;
  create function public.sleeps(s float) returns void language sql as $$ select pg_sleep(s) $$;
  create role reporter; grant reporter to current_user;
  grant usage on schema public to reporter; grant insert on public.calls to reporter;
  create function public.secret() returns int language sql as 'select 1';
  revoke execute on function public.secret() from public, svc_anon, svc_authenticated;`)

test('sql calls a function under the named role', async () => {
  for (const role of ['svc_anon', 'svc_authenticated', 'reporter']) {
    const job = await ends({ type: 'sql', payload: { function: 'public.note', args: { n: 1 }, role } }, 'completed')
    assert.deepEqual(job.log, [`answered "${role}"`])
  }
  const calls = await api.sql(`select who from public.calls order by who`)
  assert.deepEqual(
    calls.map(({ who }) => who),
    ['reporter', 'svc_anon', 'svc_authenticated'],
  )
})

test('sql finds its tables as a request does, and a function of the request roles cannot leave them', async () => {
  for (const role of ['svc_anon', 'svc_authenticated']) {
    const job = await ends({ type: 'sql', payload: { function: 'leaves', role } }, 'completed')
    assert.deepEqual(job.log, ['answered "false"'])
  }
})

test('sql says why it failed, and never runs as the server itself', async () => {
  const role = 'svc_anon'
  assert.equal((await sqlJob({ function: 'fails', role })).lastError, 'the moon is full')
  assert.equal((await sqlJob({ function: 'nowhere', role })).lastError, 'function not found: nowhere')
  assert.equal(
    (await sqlJob({ function: 'pg_catalog.pg_sleep', role })).lastError,
    'function not found: pg_catalog.pg_sleep',
  )
  assert.equal(
    (await sqlJob({ function: 'svc.adopt_changes', role })).lastError,
    'function not found: svc.adopt_changes',
  )
  assert.equal((await sqlJob({ function: 'secret', role })).lastError, 'insufficient permissions')
  assert.match((await sqlJob({ function: 'note', args: { n: 'x' }, role })).lastError, /invalid .*value/)
  assert.match((await sqlJob({ function: 'note', args: { m: 1 }, role })).lastError, /argument "n"/)
  assert.match((await sqlJob({ function: 'note', args: { n: 1 }, role: 'nobody_here' })).lastError, /role/)
  for (const none of [undefined, '', 'none', 'NONE', 7]) {
    assert.equal((await sqlJob({ function: 'note', args: { n: 1 }, role: none })).lastError, 'role is required')
  }
  assert.equal((await sqlJob({ role })).lastError, 'function is required')
  assert.equal((await sqlJob({ function: 'note', args: [1], role })).lastError, 'args must be an object')
})

test('a failed run is repeated after five seconds and more, until its attempts are used up', async () => {
  const id = await queue({ type: 'sql', payload: { function: 'fails', role: 'svc_anon' }, maxAttempts: 2 })
  const waiting = await eventually(async () => {
    const { body } = await api.call(`GET /api/admin/jobs/${id}`, asAdmin)
    assert.deepEqual([body.state, body.attempts], ['queued', 1])
    return body
  })
  assert.equal(waiting.lastError, 'the moon is full')
  const [row] = await api.sql(
    `select extract(epoch from planned_at - last_run_at)::float as wait from svc.jobs where id = $1`,
    [id],
  )
  assert.ok(Number(row.wait) >= 5 && Number(row.wait) < 10, `${row.wait}`)
  await api.sql(`update svc.jobs set run_at = now() where id = $1`, [id])
  assert.equal((await become(id, 'failed')).attempts, 2)
})

test('jobs of one type that hang leave a place for the others', async () => {
  const payload = { function: 'sleeps', args: { s: 600 }, role: 'svc_anon' }
  const hanging = await Promise.all(Array.from({ length: 6 }, () => queue({ type: 'sql', payload })))
  await eventually(async () =>
    assert.equal((await api.call('GET /api/admin/jobs?state=running', asAdmin)).body.count, 3),
  )
  await ends({ type: 'change_log_trim' }, 'completed')
  const running = await api.call('GET /api/admin/jobs?state=running', asAdmin)
  const [one] = running.body.items
  assert.ok(one.workerId && one.leaseUntil)
  const refused = await api.call(`POST /api/admin/jobs/${one.id}/cancel`, asAdmin)
  assert.deepEqual([refused.status, refused.body.message], [409, 'job is not queued'])
  const notFailed = await api.call(`POST /api/admin/jobs/${one.id}/retry`, asAdmin)
  assert.equal(notFailed.status, 409)
  for (const id of hanging) await api.call(`POST /api/admin/jobs/${id}/cancel`, asAdmin)
  await api.sql(
    `select pg_cancel_backend(pid) from pg_stat_activity
      where query like '%sleeps%' and pid <> pg_backend_pid() and datname = current_database()`,
  )
  await eventually(async () =>
    assert.equal((await api.call('GET /api/admin/jobs?state=running', asAdmin)).body.count, 0),
  )
})

test('http sends a request, and 2xx is success', async () => {
  const receiver = await startReceiver()
  const payload = { url: `${receiver.url}/hook`, headers: { 'X-Key': 'k', 'User-Agent': 'mine' }, body: { a: [1] } }
  const job = await ends({ type: 'http', payload }, 'completed')
  assert.deepEqual(job.log, ['attempt 1: POST answered 204'])
  const [got] = receiver.received
  assert.deepEqual([got?.path, got?.body], ['/hook', '{"a":[1]}'])
  assert.deepEqual(
    [got?.headers['content-type'], got?.headers['x-key'], got?.headers['user-agent'], got?.headers['idempotency-key']],
    ['application/json', 'k', 'mine', job.id],
  )
  await ends({ type: 'http', payload: { url: receiver.url, method: 'get' } }, 'completed')
  assert.equal(receiver.received.length, 2)

  receiver.answer = (_request, response) => void response.writeHead(503, { 'retry-after': '40' }).end()
  const id = await queue({ type: 'http', payload: { url: receiver.url } })
  const waiting = await eventually(async () => {
    const { body } = await api.call(`GET /api/admin/jobs/${id}`, asAdmin)
    assert.equal(body.lastError, 'receiver answered 503')
    return body
  })
  const wait = (Date.parse(waiting.runAt) - Date.parse(waiting.lastRunAt)) / 1000
  assert.ok(wait >= 39 && wait < 50, `${wait}`)
  await receiver.close()
})

test('http goes where the address guard lets it, and bad payloads are not repeated', async () => {
  const guarded = await startServer({ config: { 'webhooks.allow_private_networks': false } })
  const receiver = await startReceiver()
  const told = async (payload: object) => {
    const made = await guarded.call('POST /api/admin/jobs', { ...asAdmin, json: { type: 'http', payload } })
    return eventually(async () => {
      const { body } = await guarded.call(`GET /api/admin/jobs/${made.body.id}`, asAdmin)
      assert.equal(body.state, 'failed')
      assert.equal(body.attempts, 1)
      return body.lastError
    })
  }
  for (const url of [receiver.url, 'http://[::ffff:127.0.0.1]/', 'http://169.254.169.254/', 'http://2130706433/']) {
    assert.equal(await told({ url }), 'url points to a forbidden address', url)
  }
  assert.equal(await told({ url: 'file:///etc/passwd' }), 'url must be an absolute http or https URL')
  assert.equal(await told({}), 'url is required')
  assert.match(await told({ url: 'https://example.com', method: 'TRACE' }), /^method must be one of/)
  assert.equal(await told({ url: 'https://example.com', headers: { a: 1 } }), 'headers must be an object of strings')
  assert.equal(await told({ url: 'https://example.com', headers: { 'x-a': 'a\r\nb: c' } }), 'no header of HTTP: "x-a"')
  assert.equal(await told({ url: 'https://example.com', headers: { 'a b': '' } }), 'no header of HTTP: "a b"')
  assert.deepEqual(receiver.received, [])
  await receiver.close()
})
