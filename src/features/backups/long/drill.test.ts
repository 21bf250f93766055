import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query, startEmbeddedServer, testFolder } from '../../../../test/kit/backups.ts'
import { freePort } from '../../../../test/kit/free-port.ts'
import { svc } from '../../../../test/kit/programs.ts'

/** The commands of the drill in docs/backup.md, as they stand there. */
const page = readFileSync(new URL('../../../../docs/backup.md', import.meta.url), 'utf8')
const drill = /## A drill in ten minutes[\s\S]*?```sh\n([\s\S]*?)```/.exec(page)?.[1] ?? ''

test('the drill of the documentation works as it is written', async () => {
  const home = testFolder()
  mkdirSync(join(home, 'svc_data'))
  const server = await startEmbeddedServer(join(home, 'svc_data'))
  await query(server, `create table public.notes as select 'kept' as title`)
  const port = await freePort()
  const script = `set -e\nsvc() { "${process.execPath}" ${svc.map((part) => `"${part}"`).join(' ')} "$@"; }\n${drill}`
  const child = spawn('bash', ['-c', script.replaceAll('8091', String(port))], {
    cwd: home,
    env: { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'] },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const code = await new Promise((resolve) => child.once('close', resolve))
  assert.equal(code, 0, output)
  assert.match(output, /is good: /)
  assert.match(output, /is ready: a drill on a restored copy/)
  assert.match(output, /health {2}ok/)
})
