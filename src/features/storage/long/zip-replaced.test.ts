import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { test } from 'node:test'
import { setTimeout as pass } from 'node:timers/promises'
import { eventually } from '../../../../test/kit/eventually.ts'
import { startServer } from '../../../../test/kit/kit.ts'
import { upload } from '../../../../test/kit/upload.ts'

const api = await startServer()
const { token } = await api.signUp('ada@example.test')
const put = (name: string, content: string | Buffer) => upload(api, '/api/storage/open', { as: token, name, content })

test('a file that is replaced while an archive is downloaded slowly is in it', { timeout: 120_000 }, async () => {
  await put('a-big.bin', randomBytes(48 * 1024 * 1024))
  await put('b.txt', 'old')
  const chunks: Buffer[] = []
  const done = new Promise<void>((resolve, reject) => {
    request(`${api.url}/api/storage/open?format=zip`, (answer) => {
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', resolve).on('error', reject)
      answer.once('data', () => {
        answer.pause()
        void replace().then(() => answer.resume(), reject)
      })
    }).end()
  })
  const replace = async (): Promise<void> => {
    await put('b.txt', 'new')
    await api.sql(`update svc.queue set run_at = now() where kind = 'blobs.remove'`)
    await eventually(async () => {
      assert.deepEqual(await api.sql(`select from svc.queue where kind = 'blobs.remove'`), [])
    })
    await pass(11_000)
  }
  await done
  const archive = Buffer.concat(chunks)
  assert.ok(archive.includes('b.txt') && archive.includes('new'))
})
