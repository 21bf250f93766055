import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { test } from 'node:test'
import { Peer } from './peer.ts'

/** Two ends of one channel; what is sent arrives in a later turn. */
function channel() {
  const parent = new EventEmitter()
  const worker = new EventEmitter()
  const end = (own: EventEmitter, other: EventEmitter) =>
    Object.assign(own, { send: (message: object) => queueMicrotask(() => other.emit('message', message)) })
  return { toWorker: end(parent, worker), toParent: end(worker, parent) }
}

const settled = (asked: Promise<unknown>) =>
  asked.then(
    (value) => ({ value }),
    ({ message }: Error) => ({ message }),
  )

test('a worker that hangs costs its own figures and nobody else the answer', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const [asking, hanging] = [channel(), channel()]
  const workers = [asking, hanging].map(({ toWorker }) => new Peer(toWorker, 5_000))
  const first = workers[0] as Peer
  first.onRequest('all workers', async () => {
    const [own, other] = workers.map((worker) => settled(worker.request('own figures')))
    const heard = await own
    t.mock.timers.tick(5_000)
    return [heard, await other]
  })
  const worker = new Peer(asking.toParent)
  worker.onRequest('own figures', () => 7)
  assert.deepEqual(await worker.request('all workers'), [{ value: 7 }, { message: 'no answer: own figures' }])
})

test('a worker waits for its parent as long as that takes', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { toWorker, toParent } = channel()
  let answer: (value: unknown) => void = () => {}
  new Peer(toWorker, 5_000).onRequest('assignment', () => new Promise((resolve) => (answer = resolve)))
  const asked = new Peer(toParent).request('assignment')
  await new Promise(setImmediate)
  t.mock.timers.tick(3_600_000)
  answer('work')
  assert.equal(await asked, 'work')
})

test('nobody waits for a process that ended', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const peer = new Peer(channel().toWorker, 5_000)
  const asked = settled(peer.request('stop'))
  peer.gone()
  assert.deepEqual(await asked, { message: 'the process ended' })
  assert.deepEqual(await settled(peer.request('stop')), { message: 'nobody to ask: stop' })
})

test('a process that has just ended is no answer, and ends nobody else', async () => {
  const child = spawn(process.execPath, ['-e', ''], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
  const peer = new Peer(child, 500)
  await once(child, 'exit')
  await assert.rejects(peer.request('stop'), { message: 'no answer: stop' })
})
