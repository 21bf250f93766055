import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const other = await startServer({ on: api })
const mail = mailbox(api)

async function person(email: string): Promise<{ id: string; token: string }> {
  const { token, user } = await api.signUp(email)
  await api.sql('update svc.users set email_verified_at = now() where id = $1', [user.id])
  return { id: user.id, token }
}
const found = async (as: string): Promise<string> =>
  (await api.call('POST /api/orgs', { as, json: { name: 'Acme' } })).body.id
const makeKey = (as: string, orgId: string) => api.call('POST /api/auth/api-keys', { as, json: { name: 'k', orgId } })
const invite = (org: string, as: string, email: string, role: string) =>
  api.call(`POST /api/orgs/${org}/invites`, { as, json: { email, role } })
const claims = (as: string) => api.call('POST /api/rpc/my_claims', { as, json: {} })

await api.sql('create function my_claims() returns jsonb language sql stable as $$ select svc.claims() $$')

test('a key of an organization acts for it, while its user is a member and the organization is there', async () => {
  const [ana, bo] = [await person('ana@x.test'), await person('bo@x.test')]
  const org = await found(ana.token)
  const refused = await makeKey(bo.token, org)
  assert.deepEqual([refused.status, refused.body.error], [404, 'organization_not_found'])
  assert.equal((await makeKey(ana.token, 'x')).status, 400)
  const made = await makeKey(ana.token, org)
  assert.deepEqual([made.status, made.body.apiKey.orgId], [201, org])
  await eventually(async () => assert.equal((await claims(made.body.key)).body.org, org))
  assert.equal((await claims(ana.token)).body.org, undefined)
  const byAdmin = await api.call('POST /api/admin/api-keys', {
    as: 'admin',
    json: { userId: bo.id, name: 'k', orgId: org },
  })
  assert.deepEqual([byAdmin.status, byAdmin.body.error], [404, 'organization_not_found'])

  await api.sql('insert into svc.members (org_id, user_id, role) values ($1, $2, $3)', [org, bo.id, 'member'])
  const ofBo = (await makeKey(bo.token, org)).body.key
  assert.equal((await claims(ofBo)).body.org, org)
  await eventually(async () => {
    assert.equal((await other.call('POST /api/rpc/my_claims', { as: ofBo, json: {} })).body.org, org)
  })
  await api.call(`DELETE /api/orgs/${org}/members/${bo.id}`, { as: ana.token })
  assert.equal((await claims(ofBo)).body.org, undefined, 'at once')
  // Each process has it cached for a minute: what ends it is told to all.
  await eventually(async () => assert.equal((await claims(ofBo)).status, 401), { seconds: 10 })
  await eventually(async () => {
    assert.equal((await other.call('POST /api/rpc/my_claims', { as: ofBo, json: {} })).status, 401)
  })

  const [listed] = (await api.call('GET /api/auth/api-keys', { as: bo.token })).body
  assert.match(listed.revokedAt, /^\d{4}-/)
  await api.sql('insert into svc.members (org_id, user_id, role) values ($1, $2, $3)', [org, bo.id, 'member'])
  assert.equal((await claims(ofBo)).status, 401, 'also when its user is a member again')

  assert.equal((await api.call(`DELETE /api/orgs/${org}`, { as: ana.token })).status, 204)
  await eventually(async () => assert.equal((await claims(made.body.key)).status, 401))
})

test('usage counts by organization what sessions and keys do for it', async () => {
  const cleo = await person('cleo@x.test')
  const org = await found(cleo.token)
  const { key } = (await makeKey(cleo.token, org)).body
  const { token } = (await api.call('POST /api/auth/org', { as: cleo.token, json: { org } })).body
  assert.ok(token, 'a token of the organization')
  for (const as of [key, token, cleo.token]) await claims(as)
  const by = async (metric: string) => {
    const { status, body } = await api.call(
      `GET /api/admin/usage/breakdown?metric=${metric}&group_by=organization&limit=100`,
      { as: 'admin' },
    )
    assert.deepEqual([status, body.groupBy], [200, 'organization'])
    return body.items.find((item: { key: string }) => item.key === org)?.value
  }
  await eventually(async () => assert.equal(await by('function_invocations'), 2), { seconds: 20 })
  assert.equal(await by('api_requests'), 2)
  assert.ok((await by('bandwidth_bytes')) > 0)
  const storage = await api.call('GET /api/admin/usage/breakdown?metric=storage_bytes&group_by=organization', {
    as: 'admin',
  })
  assert.deepEqual([storage.status, storage.body.message], [400, 'invalid group_by'])
})

test('an invitation whose new mail is one too many keeps the link that was mailed', async () => {
  const [dora, emil] = [await person('dora@x.test'), await person('emil@x.test')]
  const org = await found(dora.token)
  // Ten mails an hour to an address, its own of the registration among them.
  for (let sent = 0; sent < 12; sent++)
    assert.equal((await invite(org, dora.token, 'emil@x.test', 'member')).status, 201)
  const before = await api.sql('select hash, role from svc.org_invites where org_id = $1', [org])
  const again = await invite(org, dora.token, 'emil@x.test', 'admin')
  assert.deepEqual([again.status, again.body.role], [201, 'member'], 'the one that is open')
  assert.deepEqual(await api.sql('select hash, role from svc.org_invites where org_id = $1', [org]), before)
  const link = await eventually(() => {
    const texts = mail.mails('emil@x.test').map(({ text }) => /#invite=([\w-]+)/.exec(text)?.[1])
    const last = texts.findLast((token) => token !== undefined)
    assert.ok(last)
    return last
  })
  assert.equal((await api.call(`POST /api/orgs/invites/${link}/accept`, { as: emil.token })).status, 200)
})
