import assert from 'node:assert/strict'
import { existsSync, linkSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { DiskTarget } from './disk-target.ts'

const root = mkdtempSync(join(tmpdir(), 'svc-target-'))
after(() => rmSync(root, { recursive: true, force: true }))

const MEGABYTES_20 = 20 * 2 ** 20

test('what is removed is gone; what has another name, or is a link, loses nothing there', async () => {
  const target = new DiskTarget(join(root, 'target'))
  const put = (name: string) => target.put(name, [Buffer.alloc(MEGABYTES_20, 'x')] as unknown as AsyncIterable<Buffer>)
  await put('one/base')
  await put('two/base')
  linkSync(join(root, 'target/two/base'), join(root, 'copy'))
  writeFileSync(join(root, 'elsewhere'), Buffer.alloc(MEGABYTES_20, 'y'))
  symlinkSync(join(root, 'elsewhere'), join(root, 'target/planted'))

  for (const name of ['one/base', 'two/base', 'planted', 'never/was']) await target.remove(name)
  assert.deepEqual(readdirSync(join(root, 'target')), ['tmp'])
  assert.deepEqual(readdirSync(join(root, 'target/tmp')), [])
  assert.deepEqual(
    [statSync(join(root, 'copy')).size, statSync(join(root, 'elsewhere')).size],
    [MEGABYTES_20, MEGABYTES_20],
  )
  assert.ok(!existsSync(join(root, 'target/one')))
})
