import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { AGENTS, resourceOf } from '../../../../test/kit/agents.ts'
import { freePort } from '../../../../test/kit/free-port.ts'
import { eventually, spawnServer } from '../../../../test/kit/kit.ts'
import { svc } from '../../../../test/kit/programs.ts'
import { packageRoot } from '../../../core/package-root.ts'

/** The inspector of the protocol's authors. It is fetched when this file runs, and never by `npm ci`. */
const VERSION = '2.12.0'
const folder = join(packageRoot, '.cache/inspector')
const inspector = join(folder, 'node_modules/.bin/mcp-inspector')
if (!existsSync(inspector)) {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{}')
  const fetched = spawnSync(
    'npm',
    ['install', '--no-audit', '--no-fund', '--ignore-scripts', `@modelcontextprotocol/inspector@${VERSION}`],
    { cwd: folder, encoding: 'utf8' },
  )
  assert.equal(fetched.status, 0, fetched.stderr)
}

const api = await spawnServer({ config: { ...AGENTS, 'server.port': await freePort() } })
const ana = await api.signUp('ana@x.test')
const base = new URL(resourceOf(api)).origin
await api.sql(`create table notes (id bigint generated always as identity primary key, owner uuid not null default svc.uid(), title text);
  alter table notes enable row level security; create policy own on notes using (owner = svc.uid())`)
await eventually(async () =>
  assert.equal((await api.call('GET /api/collections/notes', { as: ana.token })).status, 200),
)

/** What the user's browser does with the address that a program shows. */
async function agree(address: string): Promise<void> {
  const query = Object.fromEntries(new URL(address).searchParams)
  const { status, body, text } = await api.call('POST /api/auth/authorize/consent', {
    as: ana.token,
    json: { ...query, decision: 'approve' },
    headers: { accept: 'application/json' },
  })
  assert.equal(status, 200, text)
  assert.equal((await fetch(body.redirect_to)).status, 200)
}

/** Runs the inspector; when it shows an address to sign in at, the user agrees. Answers what it printed. */
async function inspect(home: string, args: readonly string[]) {
  const env = {
    ...process.env,
    HOME: home,
    MCP_INSPECTOR_SECRET_STORE: 'file',
    MCP_AUTO_OPEN_ENABLED: 'true',
    BROWSER: 'true',
  }
  const child = spawn(process.execPath, [inspector, '--cli', ...args, '--format', 'json'], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [out, err] = [[] as string[], [] as string[]]
  let agreed: Promise<void> | undefined
  child.stdout.on('data', (chunk) => out.push(String(chunk)))
  child.stderr.on('data', (chunk) => {
    err.push(String(chunk))
    const shown = /(?:navigate to|Sign in at):? (http\S+)\s/.exec(err.join(''))?.[1]
    if (shown !== undefined) agreed ??= agree(shown)
  })
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  await agreed
  assert.equal(code, 0, err.join(''))
  return { result: JSON.parse(out.join('')).result, hasSignedIn: agreed !== undefined }
}

const call = (name: string, args: object) => [
  ...['--method', 'tools/call', '--tool-name', name],
  ...['--tool-args-json', JSON.stringify(args)],
]

for (const era of ['modern', 'legacy']) {
  test(`the inspector, ${era}, from 401 to a write`, { timeout: 300_000 }, async () => {
    const home = mkdtempSync(join(tmpdir(), 'svc-inspector-'))
    const callback = `http://127.0.0.1:${await freePort()}/oauth/callback`
    const at = ['--server-url', `${base}/api/mcp`, '--protocol-era', era, '--callback-url', callback]
    // Also what is wrong with the schemas of tools, if anything.
    const listed = await inspect(home, [...at, '--method', 'tools/list', '--strict'])
    assert.equal(listed.hasSignedIn, true)
    assert.ok(listed.result.tools.some(({ name }: { name: string }) => name === 'create'))
    const body = { title: era }
    const tried = await inspect(home, [...at, ...call('create', { table: 'notes', body })])
    assert.equal(tried.hasSignedIn, false)
    const { confirm } = tried.result.structuredContent
    const done = await inspect(home, [...at, ...call('create', { table: 'notes', body, confirm })])
    assert.match(done.result.structuredContent.request_id, /^mcp_/)
    assert.equal((await api.sql('select from notes where title = $1', [era])).length, 1)
  })

  test(`the inspector, ${era}, over stdio`, { timeout: 300_000 }, async () => {
    const home = mkdtempSync(join(tmpdir(), 'svc-inspector-'))
    const program = [process.execPath, ...svc, 'mcp', '--url', base]
    const options = ['--protocol-era', era, '--transport', 'stdio', '--connect-timeout', '120000']
    const { result, hasSignedIn } = await inspect(home, [...program, ...options, ...call('list', { table: 'notes' })])
    assert.equal(hasSignedIn, true)
    assert.ok(Array.isArray(result.structuredContent.items), JSON.stringify(result))
  })
}
