import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { promisify } from 'node:util'
import { packageRoot } from '../../../src/core/package-root.ts'
import { type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { cases } from '../cases/all.ts'
import { SCHEMA } from '../schema.ts'
import { scriptOf } from './page.ts'

/** Versions that the cases were seen to pass in. They are fetched when this file runs, and never by `npm ci`. */
const VERSIONS = { deno: '2.9.6', bun: '1.4.4' }
const folder = join(packageRoot, '.cache/runtimes')

/** The path of a runtime's program, from npm. */
function programOf(name: keyof typeof VERSIONS): string {
  const bin = join(folder, 'node_modules', '.bin', name)
  if (!existsSync(bin)) {
    mkdirSync(folder, { recursive: true })
    // Their programs are put in place by scripts of the packages.
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ allowScripts: { deno: true, bun: true } }))
    const all = Object.entries(VERSIONS).map(([runtime, version]) => `${runtime}@${version}`)
    const { status, stderr } = spawnSync('npm', ['install', '--no-audit', '--no-fund', ...all], {
      cwd: folder,
      encoding: 'utf8',
    })
    assert.equal(status, 0, stderr)
  }
  return bin
}

let api: InProcessServer
let script: string
before(async () => {
  api = await startServer()
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
  script = join(mkdtempSync(join(tmpdir(), 'svc-runtimes-')), 'cases.mjs')
  // Prints each case that passed; a failure ends the program.
  const code = `
    import { cases } from '../cases/all.ts'
    import { runCase } from '../cases/kit.ts'
    for (const [name, work] of Object.entries(cases)) {
      await runCase(work, { url: ${JSON.stringify(api.url)} })
      console.log(name)
    }`
  writeFileSync(script, await scriptOf(code, 'esm'))
})

for (const name of ['deno', 'bun'] as const) {
  test(`all cases in ${name}, and the program ends by itself`, { timeout: 300_000 }, async () => {
    const args = name === 'deno' ? ['run', '--allow-net', '--no-config', script] : [script]
    const { stdout } = await promisify(execFile)(programOf(name), args, { timeout: 120_000 })
    assert.deepEqual(stdout.trim().split('\n'), Object.keys(cases))
  })
}
