import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { WebSocket } from 'ws'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
let ana: SignedUp
before(async () => {
  api = await startServer()
  ana = await api.signUp('ana@x.test')
  await api.sql('create table notes (id int primary key); grant all on notes to svc_authenticated')
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/notes', { as: ana.token })).status, 200),
  )
})

// biome-ignore lint/suspicious/noExplicitAny: tests look into messages freely
type Socket = { heard: any[]; say(message: unknown): void; closed(): Promise<[number, string]>; cut(): void }

/** Rejects with the status when the server does not upgrade. */
async function open(protocol = 'graphql-transport-ws'): Promise<Socket> {
  const ws = new WebSocket(`${api.url.replace(/^http/, 'ws')}/api/graphql`, protocol)
  const heard: unknown[] = []
  let end: [number, string] | undefined
  ws.on('message', (data) => void heard.push(JSON.parse(data.toString())))
  ws.on('close', (code, reason) => {
    end = [code, reason.toString()]
  })
  await new Promise<void>((resolve, reject) => {
    ws.once('open', resolve)
    ws.once('unexpected-response', (_, response) => reject(new Error(`refused ${response.statusCode}`)))
    ws.once('error', reject)
  })
  ws.on('error', () => {})
  return {
    heard,
    say: (message) => ws.send(typeof message === 'string' ? message : JSON.stringify(message)),
    closed: () =>
      eventually(() => {
        if (!end) throw new Error(`still open; so far ${JSON.stringify(heard)}`)
        return end
      }),
    cut: () => ws.terminate(),
  }
}

async function ready(token = ana.token): Promise<Socket> {
  const socket = await open()
  socket.say({ type: 'connection_init', payload: { authorization: token } })
  await eventually(() => assert.deepEqual(socket.heard[0], { type: 'connection_ack' }))
  return socket
}
const subscribe = (socket: Socket, id: string, query = 'subscription { notes { id } }') =>
  socket.say({ type: 'subscribe', id, payload: { query } })

test('who does not say who it is within three seconds is closed, and ten of an address may wait', async () => {
  const waiting = await Promise.all(Array.from({ length: 10 }, () => open()))
  await assert.rejects(open(), /refused 429/)
  // Who has said it counts no more.
  waiting[0]?.say({ type: 'connection_init', payload: { authorization: `Bearer ${ana.token}` } })
  await eventually(() => assert.equal(waiting[0]?.heard.length, 1))
  const eleventh = await open()
  eleventh.cut()
  for (const socket of waiting.slice(1)) {
    assert.deepEqual(await socket.closed(), [4408, 'Connection initialisation timeout'])
  }
  const again = await open()
  for (const socket of [again, ...waiting]) socket.cut()
})

test('each mistake against the protocol has its code', async () => {
  const codes = async (work: (socket: Socket) => void, socket?: Socket) => {
    const one = socket ?? (await open())
    work(one)
    return (await one.closed())[0]
  }
  assert.equal(await codes(() => {}, await open('graphql-ws')), 4406)
  assert.equal(await codes((socket) => socket.say('no json')), 4400)
  assert.equal(await codes((socket) => socket.say({ type: 'start' })), 4400)
  assert.equal(await codes((socket) => subscribe(socket, 'a')), 4401)
  assert.equal(await codes((socket) => socket.say({ type: 'connection_init' })), 4401)
  const bad = { type: 'connection_init', payload: { authorization: 'Bearer nonsense' } }
  assert.equal(await codes((socket) => socket.say(bad)), 4401)
  assert.equal(await codes((socket) => socket.say({ type: 'connection_init' }), await ready()), 4429)
  assert.equal(await codes((socket) => socket.say({ type: 'subscribe', payload: {} }), await ready()), 4400)
  const twice = await ready()
  subscribe(twice, 'a')
  assert.equal(await codes((socket) => subscribe(socket, 'a'), twice), 4409)
})

test('a socket has twenty subscriptions, and answers pings', async () => {
  const socket = await ready()
  for (let n = 0; n < 21; n++) subscribe(socket, `s${n}`)
  await eventually(() => assert.equal(socket.heard.filter(({ type }) => type === 'next').length, 20))
  const refused = socket.heard.find(({ type }) => type === 'error')
  assert.deepEqual([refused.id, refused.payload[0].message], ['s20', 'too many live queries'])
  socket.say({ type: 'complete', id: 's0' })
  subscribe(socket, 's20')
  await eventually(() => assert.ok(socket.heard.some(({ type, id }) => type === 'next' && id === 's20')))
  socket.say({ type: 'ping' })
  await eventually(() => assert.deepEqual(socket.heard.at(-1), { type: 'pong' }))
  socket.cut()
})

test('it ends when its token does', async () => {
  const carl = await api.signUp('carl@x.test')
  const socket = await ready(carl.token)
  subscribe(socket, 'a')
  await eventually(() => assert.equal(socket.heard.at(-1).type, 'next'))
  await api.call('POST /api/auth/logout', { as: carl.token, json: { refreshToken: carl.refreshToken } })
  assert.equal((await socket.closed())[0], 4401)
})
