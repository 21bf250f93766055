import assert from 'node:assert/strict'
import { test } from 'node:test'
import { spawnServer } from '../../../test/kit/kit.ts'
import { readProcess } from '../../db/protocol/local-backend.ts'

const groupOf = (pid: number | undefined) => readProcess(pid ?? 0, 'autogroup')
const skip =
  (process.getuid?.() !== 0 && 'only root may') ||
  (groupOf(process.pid) === undefined && 'this system has no autogroups')

test('a server with a session of its own has more of the processor than each backend; one of a terminal changes nothing', {
  skip,
}, async () => {
  const before = groupOf(process.pid)
  const [service, inTerminal] = await Promise.all([spawnServer({ detached: true }), spawnServer()])
  assert.match(groupOf(service.child.pid) ?? '', / nice -10$/m)
  assert.equal(groupOf(inTerminal.child.pid), before)
})
