import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { bundleServer } from '../scripts/tests/bundle.ts'
import { eventually, spawnServer } from '../test/kit/kit.ts'
import { upload } from '../test/kit/upload.ts'
import { packageRoot } from './core/package-root.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-built-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const main = await bundleServer(packageRoot, folder)
const dist = dirname(main)
const kept = join(dist, 'server.cjs.compiled')

/** A server of this build, until it serves and has kept its code, or found that it need not. */
async function serveOnce(check: () => void): Promise<void> {
  const server = await spawnServer({ main })
  const graphql = await server.call('POST /api/graphql', { json: { query: '{ __typename }' } })
  assert.deepEqual(graphql.body, { data: { __typename: 'Query' } })
  // Reading a form is a package that is imported when it is needed.
  assert.equal((await upload(server, '/api/storage/pub')).status, 201)
  await eventually(check)
  await server.stop()
  assert.equal(server.child.exitCode, 0)
}

const helpOf = (...flags: string[]): string =>
  execFileSync(process.execPath, [...flags, main, '--help'], { encoding: 'utf8' }).split('\n')[0] ?? ''

test('what V8 compiled is kept by the first server, and used by the next', async () => {
  await serveOnce(() => assert.ok(statSync(kept).size > 500_000))
  const { ino } = statSync(kept)
  await serveOnce(() => {})
  assert.equal(statSync(kept).ino, ino)
})

test('code that was kept wrongly is not run, and replaced', async () => {
  const whole = readFileSync(kept)
  const damaged = Buffer.from(whole)
  damaged.fill(0xff, whole.length >> 1, (whole.length >> 1) + 4096)
  for (const wrong of [Buffer.alloc(0), whole.subarray(0, whole.length >> 1), damaged]) {
    writeFileSync(kept, wrong)
    assert.equal(helpOf(), 'Usage: svc <command>')
  }
  await serveOnce(() => assert.ok(!readFileSync(kept).equals(damaged)))
  assert.ok(readFileSync(kept).length > 500_000)
})

test('other code of the same length is other code', async () => {
  const file = join(dist, 'server.cjs')
  const text = readFileSync(file, 'utf8')
  const changed = text.replace('Usage: svc <command>', 'Usage: svc [command]')
  assert.ok(changed !== text)
  writeFileSync(file, changed)
  assert.equal(helpOf(), 'Usage: svc [command]')
  assert.equal(helpOf('--enable-source-maps'), 'Usage: svc [command]')
  writeFileSync(file, text)
})

test('where nothing can be kept, every start compiles', async () => {
  rmSync(kept)
  mkdirSync(kept)
  await serveOnce(() => {})
  assert.ok(statSync(kept).isDirectory())
})
