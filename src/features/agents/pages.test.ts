import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { AGENTS, agentTools, registerAgent, resourceOf } from '../../../test/kit/agents.ts'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { startServer } from '../../../test/kit/kit.ts'

const landing = createServer((_request, response) => response.end('back'))
await new Promise<void>((resolve) => landing.listen(0, '127.0.0.1', resolve))
after(() => void landing.close())

test('people choose how their agent writes, and release what it wrote', { skip }, async () => {
  const api = await startServer({ config: AGENTS })
  await api.signUp('ana@x.test', 'long enough password')
  await api.sql(`create table notes (id int primary key, owner uuid not null default svc.uid(), title text);
    alter table notes enable row level security; create policy own on notes using (owner = svc.uid())`)
  const base = new URL(resourceOf(api)).origin
  const client_id = await registerAgent(api, 'Helpful Agent')
  const redirect_uri = `http://127.0.0.1:${(landing.address() as AddressInfo).port}/callback`
  const verifier = randomBytes(32).toString('base64url')
  const asked = {
    response_type: 'code',
    client_id,
    redirect_uri,
    scope: 'readwrite',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    resource: resourceOf(api),
  }
  const page = await (await startBrowser()).newPage()
  page.setDefaultTimeout(30_000)
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click()
  const signIn = async () => {
    await page.getByLabel('Email').fill('ana@x.test')
    await page.getByLabel('Password').fill('long enough password')
    await press('Sign in')
  }
  await page.goto(`${base}/oauth/consent?${new URLSearchParams(asked)}`)
  await signIn()
  await page.getByRole('heading', { name: 'Helpful Agent asks for access' }).waitFor()
  await page.getByText('read and change data as you, as an agent').waitFor()
  await page.getByText('in all tables that you can reach').waitFor()
  await page.getByLabel('Every write waits until I release it').check()
  await press('Approve')
  await page.waitForURL((at) => at.pathname === '/callback')
  const code = new URL(page.url()).searchParams.get('code') ?? ''
  const form = { grant_type: 'authorization_code', code, redirect_uri, client_id, code_verifier: verifier }
  const { body } = await api.call('POST /api/auth/token', { form })
  const tool = agentTools(api, body.access_token)
  const held = await tool('create', { table: 'notes', body: { id: 1, title: 'from the agent' } })
  assert.equal(held.content.reason, 'release', held.text)

  await page.goto(`${base}/account`)
  await signIn()
  await page.getByText('create: create 1 in notes').waitFor()
  await press('Look at it')
  await page.getByText('title: – → "from the agent"').waitFor()
  await press('Do it')
  await page.getByText('create: create 1 in notes').waitFor({ state: 'detached' })
  assert.equal((await tool('get', { table: 'notes', id: '1' })).content.title, 'from the agent')

  // The browser is signed in by now; the agent asks for all, and the user lets it read.
  const { scope: _scope, ...unscoped } = asked
  await page.goto(`${base}/oauth/consent?${new URLSearchParams(unscoped)}`)
  await page.getByText('read and change data as you, as an agent').waitFor()
  await page.getByLabel('It may only read').check()
  await press('Approve')
  await page.waitForURL((at) => at.pathname === '/callback')
  const second = new URL(page.url()).searchParams.get('code') ?? ''
  const reader = await api.call('POST /api/auth/token', { form: { ...form, code: second } })
  assert.equal(reader.body.scope, 'readonly', reader.text)
  const refused = await agentTools(api, reader.body.access_token)('delete', { table: 'notes', id: '1' })
  assert.equal(refused.content.code, 403)
})
