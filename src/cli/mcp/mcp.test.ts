import assert from 'node:assert/strict'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { AGENTS } from '../../../test/kit/agents.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { svc } from '../../../test/kit/programs.ts'

const api = await startServer({ config: { ...AGENTS, 'agents.admin': true } })
const base = `http://localhost:${new URL(api.url).port}`
const ana = await api.signUp('ana@x.test')
await api.sql(`create table notes (id int primary key, title text, owner uuid default svc.uid());
  alter table notes enable row level security; create policy own on notes using (owner = svc.uid())`)
await eventually(async () =>
  assert.equal((await api.call('GET /api/collections/notes', { as: ana.token })).status, 200),
)

/** What a person does with the address that the program prints. */
async function agree(stderr: string): Promise<void> {
  const address = new URL(/Sign in at (\S+)/.exec(stderr)?.[1] ?? assert.fail(stderr))
  assert.equal(address.pathname, '/oauth/consent')
  const { body, status, text } = await api.call('POST /api/auth/authorize/consent', {
    as: ana.token,
    json: { ...Object.fromEntries(address.searchParams), decision: 'approve' },
    headers: { accept: 'application/json' },
  })
  assert.equal(status, 200, text)
  assert.equal((await fetch(body.redirect_to)).status, 200)
}

for (const pin of ['2026-07-28', undefined]) {
  test(`svc mcp signs in by the browser, ${pin ?? '2025-11-25'}`, async () => {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [...svc, 'mcp', '--url', base],
      // No browser is to open.
      env: { ...(process.env as Record<string, string>), BROWSER: 'true' },
      stderr: 'pipe',
    })
    let said = ''
    transport.stderr?.on('data', (chunk) => (said += chunk))
    const negotiation = pin === undefined ? {} : { versionNegotiation: { mode: { pin } } }
    const client = new Client({ name: 'stdio', version: '1' }, negotiation as never)
    await client.connect(transport, { timeout: 120_000 })
    const listing = client.listTools({}, { timeout: 120_000 })
    listing.catch(() => {})
    await eventually(() => assert.match(said, /Sign in at/), { seconds: 60 })
    await agree(said)
    const { tools } = await listing
    assert.ok(tools.some(({ name }) => name === 'create'))
    const listed = (await client.callTool({ name: 'list', arguments: { table: 'notes' } })) as {
      structuredContent: { items: unknown[] }
    }
    assert.deepEqual(listed.structuredContent.items, [])
    await client.close()
  })
}

test('svc mcp --admin uses the token of this machine', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-mcp-'))
  writeFileSync(join(dir, 'admin-token'), `${await api.app.issueAdminToken()}\n`)
  const env = { ...(process.env as Record<string, string>), SVC_DATA_DIR: dir, SVC_SERVER_PORT: new URL(api.url).port }
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [...svc, 'mcp', '--admin', '--url', api.url],
    env,
  })
  const client = new Client({ name: 'stdio', version: '1' })
  await client.connect(transport, { timeout: 120_000 })
  const answer = (await client.callTool({ name: 'sql', arguments: { query: 'select 1 as one' } })) as {
    structuredContent: unknown
  }
  assert.deepEqual(answer.structuredContent, { columns: ['one'], rows: [['1']] })
  await client.close()
})
