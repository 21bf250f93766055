import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit.ts'

test('a change and its audit entry are one transaction: without the entry there is no change', async () => {
  const api = await startServer()
  const { user } = await api.signUp('ana@x.test')
  const admin = (line: Parameters<typeof api.call>[0], json?: unknown) =>
    api.call(line, { as: 'admin', ...(json !== undefined && { json }) })
  const hook = (await admin('POST /api/webhooks', { url: 'https://x.test/' })).body
  const app = (await admin('POST /api/admin/apps', { name: 'a', ownerUserId: user.id })).body
  const entries = async () => api.sql('select action, target from svc.audit_log order by seq')
  assert.deepEqual(await entries(), [
    { action: 'webhook.create', target: hook.id },
    { action: 'app.create', target: app.id },
  ])
  await api.sql(`
    create function svc.refuse() returns trigger language plpgsql as $$ begin raise exception 'disk full'; end $$;
    create trigger refuse before insert on svc.audit_log for each row execute function svc.refuse()`)
  for (const [line, json] of [
    ['POST /api/webhooks', { url: 'https://y.test/' }],
    [`PATCH /api/webhooks/${hook.id}`, { enabled: false }],
    [`DELETE /api/webhooks/${hook.id}`, undefined],
    ['POST /api/admin/apps', { name: 'b', ownerUserId: user.id }],
    [`PUT /api/admin/apps/${app.id}`, { name: 'c' }],
    [`DELETE /api/admin/apps/${app.id}`, undefined],
  ] as [Parameters<typeof api.call>[0], unknown][]) {
    assert.ok((await admin(line, json)).status >= 400, line)
  }
  await api.sql('drop trigger refuse on svc.audit_log')
  assert.deepEqual((await admin('GET /api/webhooks')).body, [hook])
  assert.deepEqual((await admin('GET /api/admin/apps')).body.items, [app])
  // What changes nothing leaves no entry.
  const nobody = '00000000-0000-4000-8000-000000000000'
  assert.equal((await admin(`DELETE /api/webhooks/${nobody}`)).status, 404)
  assert.equal((await admin(`PUT /api/admin/apps/${nobody}`, { name: 'x' })).status, 404)
  assert.equal((await entries()).length, 2)
  assert.equal((await admin(`DELETE /api/admin/apps/${app.id}`)).status, 204)
  assert.deepEqual((await entries()).at(-1), { action: 'app.delete', target: app.id })
})
