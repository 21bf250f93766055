import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { skip, startBrowser } from '../kit/browser.ts'
import { bundleWithClient, runWithClient } from '../kit/client-program.ts'
import { eventually, type InProcessServer, startServer } from '../kit/kit.ts'
import { svc } from '../kit/programs.ts'

const page = readFileSync('docs/client.md', 'utf8')
/** The code blocks with this after their fence. */
const blocks = (info: string): string[] =>
  [...page.matchAll(/^```([^\n]*)\n([\s\S]*?)^```$/gm)].flatMap(([, is, code]) => (is === info ? [code ?? ''] : []))

const folder = mkdtempSync(join(tmpdir(), 'svc-client-docs-'))
after(() => rmSync(folder, { recursive: true, force: true }))
let api: InProcessServer
const here = (code: string): string => code.replaceAll('http://localhost:8090', api.url)
before(async () => {
  api = await startServer()
  for (const query of blocks('sql')) await api.call('POST /api/admin/sql', { as: 'admin', json: { query } })
})

test('docs/client.md: its program runs from top to bottom, and ends', async () => {
  const { stdout } = await runWithClient(here(blocks('ts').join('\n')))
  for (const said of ['feed the lions', 'the slug is taken', 'true', 'meow', '<b>lions</b>', 'ana@example.com']) {
    assert.ok(stdout.includes(said), `${said} is not in\n${stdout}`)
  }
})

test('docs/client.md: what the page installs and makes is what its program needs, for the compiler too', async () => {
  const [shell = ''] = blocks('sh')
  const commands = shell.split('\n').flatMap((line) => /^svc ([^#]*)/.exec(line)?.[1]?.trim().split(' ') ?? [])
  const flags = ['--url', api.url, '--admin-token', await api.adminToken()]
  await promisify(execFile)(process.execPath, [...svc, ...commands, ...flags], { cwd: folder })
  const program = ['ts', 'ts browser', 'tsx browser'].flatMap(blocks)
  writeFileSync(join(folder, 'program.tsx'), program.join('\n'))
  const root = process.cwd()
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      extends: join(root, 'examples/tsconfig.json'),
      compilerOptions: {
        noUnusedLocals: false,
        paths: {
          'savanna-client': [join(root, 'client/src/main.ts')],
          'savanna-client/*': [join(root, 'client/src/*.ts')],
        },
      },
      include: ['.'],
    }),
  )
  const tsc = join(root, 'node_modules/.bin/tsc')
  const { status, stdout } = spawnSync(tsc, ['-p', folder], { encoding: 'utf8' })
  assert.equal(status, 0, stdout)
})

test('docs/client.md: its pages work in a browser', { skip }, async () => {
  const start = `import { createClient } from 'savanna-client'\nconst svc = createClient('${api.url}')\n`
  const script = await bundleWithClient(start + [...blocks('tsx browser'), ...blocks('ts browser')].join('\n'))
  const server = createServer((request, response) => {
    const isScript = request.url === '/script.js'
    response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' })
    response.end(isScript ? script : '<!doctype html><body><script type="module" src="/script.js"></script>')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const tab = await (await startBrowser()).newPage()
  await tab.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  await tab.getByText('Add').click()
  // Visitors hear of no changes, so the list is read when it is shown.
  await eventually(async () => {
    await tab.reload()
    assert.ok(await tab.getByText('count the cranes').first().isVisible())
  })
  assert.equal(await tab.getByRole('button').count(), 2)
  server.closeAllConnections()
  server.close()
})
