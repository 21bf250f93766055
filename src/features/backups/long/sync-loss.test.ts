import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { folderElsewhere, query, runSvc, spawnEmbedded, testFolder } from '../../../../test/kit/backups.ts'
import { eventually } from '../../../../test/kit/kit.ts'
import { sleep } from '../../../core/clock.ts'

const ROUNDS = 10
const WRITERS = 4
const home = testFolder()
const elsewhere = folderElsewhere(home)
const skip = elsewhere === undefined && 'this machine has one file system'
const to = join(elsewhere ?? home, 'target')
const config = {
  'backup.to': to,
  'backup.continuous': 'sync',
  'backup.sync_timeout': 60,
  'backup.passphrase': 'only for tests',
}

test('sync: everything killed and the data deleted, ten rounds: no acknowledged write is lost', { skip }, async () => {
  let dataDir = join(home, 'first')
  let server = await spawnEmbedded(dataDir, config)
  await query(server, 'create table public.notes (id int primary key)')
  const acknowledged = new Set<number>()
  let next = 0
  for (let round = 0; round < ROUNDS; round++) {
    await eventually(
      async () => {
        const { body } = await server.call('GET /api/admin/backups', { as: 'admin' })
        assert.equal(body.items[0]?.state, 'good')
        assert.deepEqual(await query(server, 'show synchronous_standby_names'), [['svc_archive']])
      },
      { seconds: 120 },
    )
    let isOver = false
    const { call } = server
    const write = async () => {
      while (!isOver) {
        const id = next++
        const { status } = await call('POST /api/collections/notes', { as: 'admin', json: { id } }).catch(() => ({
          status: 0,
        }))
        if (status === 201) acknowledged.add(id)
        else if (status === 0) return
      }
    }
    const writers = Array.from({ length: WRITERS }, write)
    await sleep(500 + Math.random() * 1500)
    await server.killAll()
    isOver = true
    await Promise.all(writers)
    rmSync(dataDir, { recursive: true })
    dataDir = join(home, `round-${round}`)
    const { code, err } = await runSvc(['restore', '--from', to, '--data-dir', dataDir, '--take-over'], config)
    assert.equal(code, 0, err)
    server = await spawnEmbedded(dataDir, config)
    const there = new Set((await query(server, 'select id from public.notes')).map(([id]) => Number(id)))
    const lost = [...acknowledged].filter((id) => !there.has(id))
    assert.deepEqual(lost, [], `round ${round}: ${lost.length} of ${acknowledged.size} lost`)
  }
  assert.ok(acknowledged.size > 100)
  await server.kill('SIGTERM')
})
