import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { type AppError, unauthorized } from '../../../core/errors.ts'
import type { Identity } from '../../../core/identity.ts'
import { grantOf } from '../../../core/scope.ts'
import type { Position } from '../../../db/changes/position.ts'
import { RealtimeClient } from './client.ts'
import { Connections } from './connections.ts'

const user = (id: string, expiresAt: number): Identity => ({
  ...{ kind: 'user', id, email: '', aal: 'aal1', amr: [], sessionId: id, isAnonymous: false, expiresAt },
})
const FOREVER = 1e9

/** Connections whose time passes when `tick` is called. */
function start(t: TestContext, { heartbeatSeconds = 30, retentionSeconds = 3600 } = {}) {
  t.mock.timers.enable({ apis: ['setInterval'] })
  let now = 0
  let counted = 0
  const clock = { now: () => now }
  const connections = new Connections({
    ...{ clock, heartbeatSeconds, retentionSeconds, maxPerOwner: 2 },
    identify: (bearer) => {
      if (bearer === 'revoked') throw unauthorized('invalid or expired token')
      return user(bearer, FOREVER)
    },
    opened: () => {
      counted++
      return () => void counted--
    },
  })
  connections.start()
  class FakeClient extends RealtimeClient {
    readonly events: (string | undefined)[] = []
    constructor(who: Identity) {
      const format = {
        change: () => Buffer.of(),
        reset: () => Buffer.of(),
        expiring: (at: number) => Buffer.from(`${at}`),
      }
      super(new PassThrough(), format, { who, bufferSize: 1, clock })
    }
    override get closed(): boolean {
      return false
    }
    override write(bytes: Buffer | string): void {
      this.events.push(`expiring ${bytes}`)
    }
    override beat(position: Position | undefined): void {
      this.events.push(position === undefined ? 'beat' : `beat ${position}`)
    }
    override drop(): void {}
    override fail({ status, message }: AppError): void {
      this.events.push(`${status} ${message}`)
      connections.remove(this)
    }
    override leave(): void {
      this.events.push('leave')
    }
  }
  const open = (who: Identity, position?: Position): FakeClient => {
    const client = new FakeClient(who)
    connections.add(client, () => position)
    return client
  }
  const tick = (seconds: number): void => {
    for (let i = 0; i < seconds * 2; i++) {
      now += 500
      t.mock.timers.tick(500)
    }
  }
  return { connections, open, tick, counted: () => counted }
}

test('each client has one sign of life per interval, spread over it', (t) => {
  const { open, tick } = start(t, { heartbeatSeconds: 2 })
  const clients = Array.from({ length: 4 }, () => open(user('ana', FOREVER)))
  tick(0.5)
  assert.deepEqual(
    clients.map(({ events }) => events.length),
    [1, 0, 0, 0],
  )
  tick(1.5)
  assert.ok(clients.every(({ events }) => events.length === 1))
  tick(10)
  assert.ok(clients.every(({ events }) => events.length === 6))
})

test('a client whose id has become old is told a newer one, before the log forgets the old one', (t) => {
  const { open, tick } = start(t, { heartbeatSeconds: 1, retentionSeconds: 8 })
  const { events } = open(user('ana', FOREVER), '1-7')
  tick(2)
  assert.deepEqual(new Set(events), new Set(['beat']))
  tick(1)
  assert.equal(events.at(-1), 'beat 1-7')
})

test('a client is warned once for each token, a minute before it expires, and ends with it', (t) => {
  const { open, tick } = start(t)
  const client = open(user('ana', 100))
  const news = () => client.events.filter((event) => event !== 'beat')
  tick(39.5)
  assert.deepEqual(news(), [])
  tick(10)
  assert.deepEqual(news(), ['expiring 100'])
  client.who = user('ana', 130)
  tick(30)
  assert.deepEqual(news(), ['expiring 100', 'expiring 130'])
  tick(50.5)
  assert.deepEqual(news(), ['expiring 100', 'expiring 130', '401 invalid or expired token'])
})

test('a client with less than a minute left is warned at once; a key that never expires is not', (t) => {
  const { open, tick } = start(t)
  const grant = grantOf('*', [], null)
  const key: Identity = { kind: 'key', via: 'api_key', keyId: 'k', userId: null, email: '', grant, expiresAt: null }
  assert.deepEqual(open(user('ana', 59)).events, ['expiring 59'])
  const { events } = open(key)
  tick(1_000)
  assert.deepEqual(new Set(events), new Set(['beat']))
})

test('an owner may have so many connections, and closing one makes room', (t) => {
  const { connections, counted } = start(t)
  const ana = user('ana', FOREVER)
  const release = connections.acquire(ana)
  connections.acquire(ana)
  assert.throws(() => connections.acquire(ana), { errorCode: 'connection_limit', message: 'connection limit exceeded' })
  connections.acquire(user('bo', FOREVER))
  for (let i = 0; i < 5; i++) connections.acquire({ kind: 'anonymous' })
  assert.equal(counted(), 8)
  release()
  connections.acquire(ana)
  assert.equal(counted(), 8)
})

test('revoked tokens end their connections, also one that was revoked while its connection was opened', async (t) => {
  const { connections, open } = start(t)
  const [ana, bo] = [open(user('ana', FOREVER)), open(user('bo', FOREVER))]
  connections.endRevoked((who) => who.kind === 'user' && who.id === 'ana')
  await connections.endIfRevoked(bo, 'good')
  assert.deepEqual([ana.events, bo.events], [['401 invalid or expired token'], []])
  await connections.endIfRevoked(bo, 'revoked')
  assert.deepEqual(bo.events, ['401 invalid or expired token'])
})

test('a server that stops sends its clients away and takes no more', (t) => {
  const { connections, open } = start(t)
  const { events } = open(user('ana', FOREVER))
  connections.refuseIfDraining()
  connections.drain()
  assert.deepEqual(events, ['leave'])
  assert.throws(() => connections.refuseIfDraining(), { status: 503 })
})
