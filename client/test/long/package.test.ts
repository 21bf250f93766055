import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { packageRoot } from '../../../src/core/package-root.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { SCHEMA } from '../schema.ts'

const run = promisify(execFile)
const folder = mkdtempSync(join(tmpdir(), 'svc-package-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const PROGRAM = `
import { ApiError, createClient, where } from 'savanna-client'
import { createClient as createDataClient } from 'savanna-client/data'
import { createAccount } from 'savanna-client/account'
import { createAuth } from 'savanna-client/auth'
import { createOauth } from 'savanna-client/oauth'
import { createPasskeys } from 'savanna-client/passkeys'
import { createRealtime } from 'savanna-client/realtime'
import { createStorage } from 'savanna-client/storage'

const svc = createClient(process.argv[2] ?? '')
const { id } = await svc.from('notes').create({ title: 'packed' })
const { items } = await svc.from('notes').list({ filter: where\`id = \${Number(id)}\` })
const small = createDataClient(process.argv[2] ?? '')
createRealtime(small.core)
createStorage(small.core)
const auth = createAuth(small.core)
Object.assign(auth, createOauth(small.core), createAccount(small.core), { passkey: createPasskeys(small.core) })
await auth.login({ email: 'a@x.test', password: 'wrong password' }).catch((error) => {
  if (!(error instanceof ApiError)) throw error
})
console.log(items[0]?.['title'])
`

test('the package, as npm packs it: every entry, its types, and nothing besides', { timeout: 300_000 }, async () => {
  const client = join(packageRoot, 'client')
  await run('npm', ['pack', '--pack-destination', folder], { cwd: client })
  const [tarball = ''] = readdirSync(folder)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
  await run('npm', ['install', '--no-audit', '--no-fund', join(folder, tarball)], { cwd: folder })
  assert.deepEqual(
    readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['savanna-client'],
  )
  writeFileSync(join(folder, 'program.ts'), PROGRAM)
  const compilerOptions = {
    ...{ strict: true, noEmit: true, module: 'nodenext', target: 'es2022', lib: ['es2023', 'dom'] },
    // Applications check libraries too.
    ...{ skipLibCheck: false, types: ['node'], typeRoots: [join(packageRoot, 'node_modules/@types')] },
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['program.ts'] }))
  const tsc = spawnSync(join(packageRoot, 'node_modules/.bin/tsc'), ['-p', folder], { encoding: 'utf8' })
  assert.equal(tsc.status, 0, tsc.stdout)

  const api = await startServer()
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
  const program = ['--import', import.meta.resolve('tsx'), join(folder, 'program.ts'), api.url]
  assert.equal((await run(process.execPath, program, { cwd: folder })).stdout, 'packed\n')
})
