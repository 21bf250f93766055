import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { WebSocket } from 'ws'
import { eventually, type InProcessServer, startServer } from '../../test/kit/kit.ts'
import { type ChannelMessage, createChannels, type Member } from '../src/channels.ts'
import type { SocketType } from '../src/core.ts'
import { createClient } from '../src/data.ts'
import type { ApiError } from '../src/errors.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'realtime.open_channels': 'public:*' } })
})

const sockets: WebSocket[] = []
class Cut extends WebSocket {
  constructor(url: string) {
    super(url)
    sockets.push(this)
  }
}

test('members hear each other and who is there, also after the connection was cut', async () => {
  const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
  const of = (key: string) =>
    createChannels(createClient(api.url, { key, WebSocket: Cut as unknown as SocketType }).core)
  const heard: ChannelMessage[] = []
  const present = { ana: [] as readonly Member[], bo: [] as readonly Member[] }
  const hers = of(ana.token).channel('public:a', {
    presence: { name: 'Ana' },
    onPresence: (members) => {
      present.ana = members
    },
  })
  const all = of(bo.token)
  const his = all.channel('public:a', {
    onMessage: (message) => void heard.push(message),
    onPresence: (members) => {
      present.bo = members
    },
  })
  await eventually(() =>
    assert.deepEqual(
      present.bo.map(({ state }) => state),
      [{ name: 'Ana' }],
    ),
  )
  await eventually(() =>
    assert.deepEqual(
      present.ana.map(({ from }) => from),
      [bo.user.id],
    ),
  )
  await hers.send('say', { text: 'hello' })
  await eventually(() => assert.deepEqual(heard, [{ event: 'say', payload: { text: 'hello' }, from: ana.user.id }]))
  await hers.setState({ name: 'A.' })
  await eventually(() =>
    assert.deepEqual(
      present.bo.map(({ state }) => state),
      [{ name: 'A.' }],
    ),
  )
  for (const socket of sockets.splice(0)) socket.terminate()
  await eventually(() => assert.equal(sockets.length, 2))
  await eventually(async () => {
    await hers.send('again')
    assert.equal(heard.at(-1)?.event, 'again')
  })
  await eventually(() =>
    assert.deepEqual(
      present.bo.map(({ state }) => state),
      [{ name: 'A.' }],
    ),
  )
  let refused: ApiError | undefined
  const secret = all.channel('secret', {
    onLeft: (error) => {
      refused = error
    },
  })
  await eventually(() => assert.equal(refused?.status, 403))
  await assert.rejects(secret.send('say'), { status: 403 })
  his.leave()
  await eventually(() => assert.deepEqual(present.ana, []))
  hers.leave()
})
