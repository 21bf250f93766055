import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mailServer, smtp } from '../fakes/mail-server.ts'
import { freePort } from '../kit/free-port.ts'
import { eventually, spawnServer, startServer } from '../kit/kit.ts'

const linkIn = (text: string): URL => new URL(/https?:\/\/\S+\?token=[\w-]+/.exec(text)?.[0] ?? '')

test('the link in the verification mail has the public address, whatever the request said, and works', async () => {
  const { inbox, listen } = mailServer()
  const api = await startServer({ config: { ...smtp(await listen()), 'server.public_base_url': 'https://shop.test' } })
  const evil = { 'x-forwarded-host': 'evil.test', forwarded: 'host=evil.test', origin: 'https://evil.test' }
  const json = { email: 'ana@x.test', password: 'long enough password' }
  const registered = await api.call('POST /api/auth/register', { json, headers: evil })
  assert.equal(registered.status, 201)
  await eventually(() => assert.equal(inbox.length, 1))
  assert.equal(inbox[0]?.to, 'ana@x.test')
  const link = linkIn(inbox[0]?.text ?? '')
  assert.equal(link.origin + link.pathname, 'https://shop.test/auth/verify')

  const token = link.searchParams.get('token')
  assert.equal((await api.call('POST /api/auth/verify', { json: { token } })).status, 204)
  assert.equal((await api.call('GET /api/auth/me', { as: registered.body.token })).body.emailVerified, true)
  await eventually(async () => assert.deepEqual(await api.sql('select from svc.queue'), []))
})

test('a mail whose process was killed before it could send it arrives after the restart', async () => {
  const { inbox, listen } = mailServer()
  const port = await freePort()
  const victim = await spawnServer({ config: smtp(port) })
  const json = { email: 'bo@x.test', password: 'long enough password' }
  assert.equal(
    (await victim.call('POST /api/auth/register', { json })).status,
    201,
    'a mail server that is away fails nobody',
  )
  await victim.kill('SIGKILL')
  assert.equal((await victim.sql(`select from svc.queue where kind = 'mail'`)).length, 1)

  await listen(port)
  await startServer({ on: victim, config: smtp(port) })
  // The retry, or the lease of the killed process, is brought forward so that the test need not wait for it.
  await victim.sql('update svc.queue set run_at = now()')
  await eventually(() => assert.equal(inbox[0]?.to, 'bo@x.test'))
  await eventually(async () => assert.deepEqual(await victim.sql('select from svc.queue'), []))
})
