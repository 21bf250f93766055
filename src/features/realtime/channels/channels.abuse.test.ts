import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, type SignedUp, spawnServer, startServer } from '../../../../test/kit/kit.ts'
import { type Talker, talkTo } from '../../../../test/kit/web-socket.ts'

let api: InProcessServer
let [ana, bo] = [] as unknown as [SignedUp, SignedUp]
const config = { 'realtime.open_channels': 'public:*', 'realtime.channel_rate': 50, 'realtime.channel_bytes': '64KB' }
before(async () => {
  api = await startServer({ config })
  ana = await api.signUp('ana@x.test')
  bo = await api.signUp('bo@x.test')
})

const talk = ({ token }: { token: string }, url = api.url): Promise<Talker> => talkTo(url, { token })
const join = (talker: Talker, channel: string, presence?: object) => talker.ask({ type: 'join', channel, presence })
const send = (talker: Talker, channel: string, event: string, payload?: unknown) =>
  talker.ask({ type: 'send', channel, event, payload })
const messages = (talker: Talker) => talker.heard.filter(({ type }) => type === 'message')
/** Until the rate of the last second is over: what is refused is refused by it alone. */
const sent = (talker: Talker, channel: string, event: string, payload?: unknown) =>
  eventually(async () => {
    const reply = await send(talker, channel, event, payload)
    assert.notEqual(reply.code, 429)
    return reply
  })

test('names, states, payloads, events and channels have their limits', async () => {
  const hers = await talk(ana)
  assert.equal((await join(hers, `public:${'x'.repeat(121)}`)).status, 'ok')
  for (const name of [`public:${'x'.repeat(122)}`, `public:${'é'.repeat(61)}`, '', 'public:\0', 'public:\ud800']) {
    assert.equal((await join(hers, name)).code, 400, JSON.stringify(name))
  }
  assert.equal((await join(hers, 'public:s', { s: 'x'.repeat(1_017) })).code, 413)
  assert.equal((await join(hers, 'public:s', { s: 'x'.repeat(1_016) })).status, 'ok')
  assert.equal((await join(hers, 'public:s')).code, 409)
  assert.equal((await send(hers, 'public:s', 'e', 'x'.repeat(32 * 1024 - 1))).code, 413)
  assert.equal((await sent(hers, 'public:s', 'e', 'x'.repeat(32 * 1024 - 2))).status, 'ok')
  assert.equal((await send(hers, 'public:s', 'x'.repeat(65))).code, 400)
  for (let i = 3; i <= 100; i++) assert.equal((await join(hers, `public:${i}`)).status, 'ok', String(i))
  assert.deepEqual((await join(hers, 'public:101')).message, 'too many channels: max 100')
  for (let i = 1; i < 32; i++) assert.equal((await sent(hers, 'public:3', `e${i}`)).status, 'ok')
  assert.equal((await sent(hers, 'public:3', 'e32')).message, 'too many event names: max 32')
  assert.equal((await sent(hers, 'public:3', 'e31')).status, 'ok')
  hers.close()
})

test('a flood is refused beyond the rate, in an error of its own without a ref', async () => {
  const [hers, his] = [await talk(ana), await talk(bo)]
  await join(his, 'public:flood')
  await sent(hers, 'public:flood', 'first')
  for (let n = 0; n < 200; n++) hers.say({ type: 'send', channel: 'public:flood', event: 'n', payload: n })
  const refused = await hers.until(({ type }) => type === 'error')
  assert.deepEqual([refused.code, refused.error, refused.channel], [429, 'rate_limited', 'public:flood'])
  await hers.ask({ type: 'ping' })
  for (let i = 0; i < 12; i++) his.say({ type: 'presence', channel: 'public:flood', state: { i }, ref: `s${i}` })
  await his.until(({ message }) => message === 'too many changes of state')
  assert.ok(messages(his).length < 190, String(messages(his).length))
  hers.close()
  his.close()
})

test('a channel carries so many bytes times receivers in a second', async () => {
  const [hers, ...his] = await Promise.all([talk(ana), talk(bo), talk(bo), talk(bo)])
  for (const talker of his) await join(talker, 'public:wide')
  const payload = 'x'.repeat(30_000)
  await eventually(async () => {
    assert.equal((await send(hers, 'public:wide', 'e', payload)).message, 'channel carries too much')
  })
  assert.equal((await sent(hers, 'public:wide', 'e', 'small')).status, 'ok')
  for (const talker of [hers, ...his]) talker.close()
})

test('who may not has nothing of a channel: visitors, tokens limited to tables, readonly ones that send', async () => {
  const key = async (json: object) =>
    (await api.call('POST /api/auth/api-keys', { as: ana.token, json: { name: 'k', ...json } })).body
  await api.sql('create table if not exists notes (id int primary key)')
  const limited = await key({ scope: 'readwrite', allowedTables: ['notes'] })
  const readonly = await key({ scope: 'readonly' })
  const visitor = await talkTo(api.url)
  assert.equal((await join(visitor, 'public:v')).code, 401)
  assert.equal((await send(visitor, 'public:v', 'e')).code, 401)
  visitor.close()
  const tables = await talkTo(api.url, { token: limited.key })
  assert.equal((await join(tables, 'public:v')).message, 'token is limited to tables')
  assert.equal((await send(tables, 'public:v', 'e')).code, 403)
  const reader = await talkTo(api.url, { token: readonly.key })
  assert.equal((await join(reader, 'public:v')).status, 'ok')
  assert.equal((await send(reader, 'public:v', 'e')).code, 403)
  // The same connection with a lesser token of the same user.
  const hers = await talk(ana)
  await join(hers, 'public:v')
  assert.equal((await hers.ask({ type: 'auth', token: limited.key })).status, 'ok')
  assert.equal((await hers.until(({ type }) => type === 'left')).reason, 'forbidden')
  for (const talker of [tables, reader, hers]) talker.close()
})

test('a revoked token ends its places', async () => {
  const [cleo, his] = [await api.signUp('cleo@x.test'), await talk(bo)]
  const hers = await talk(cleo)
  await join(his, 'public:r')
  await join(hers, 'public:r')
  assert.equal(
    (await api.call('POST /api/auth/logout', { as: cleo.token, json: { refreshToken: cleo.refreshToken } })).status,
    204,
  )
  assert.equal(await hers.closed(), 4401)
  const { left } = await his.until(({ type, left }) => type === 'presence' && left.length > 0)
  assert.equal(left[0].from, cleo.user.id)
  his.close()
})

test('a notification of the database speaks for no one', async () => {
  const his = await talk(bo)
  await join(his, 'public:forged')
  const message = { type: 'message', channel: 'public:forged', event: 'e', payload: 'forged', from: ana.user.id }
  const json = JSON.stringify([message])
  for (const mac of ['', 'A'.repeat(24)])
    await api.sql(`select pg_notify('svc_channels', $1)`, [`${crypto.randomUUID()} 1 0 1 ${mac}${json}`])
  await api.sql(`select pg_notify('svc_channels', 'nonsense')`)
  assert.equal(
    (await api.call('POST /api/realtime/channels/public:forged', { as: 'admin', json: { event: 'e', payload: 1 } }))
      .status,
    204,
  )
  await his.until(({ payload }) => payload === 1)
  assert.deepEqual(
    messages(his).map(({ payload }) => payload),
    [1],
  )
  his.close()
})

test('two processes are one: messages, presence, removal, the rate, and the end of a killed one', async () => {
  const other = await spawnServer({ on: api, config: { ...config, 'realtime.channel_bytes': '16MB' } })
  const [here, there] = [await talk(ana), await talk(bo, other.url)]
  await join(here, 'public:two', { at: 'here' })
  const { members } = await join(there, 'public:two', { at: 'there' })
  assert.deepEqual(
    members.map(({ state }: { state: object }) => state),
    [{ at: 'here' }],
  )
  await here.until(({ type, joined }) => type === 'presence' && joined[0]?.state.at === 'there')
  const long = 'ü€😀'.repeat(1_000)
  assert.equal((await sent(here, 'public:two', 'e', long)).status, 'ok')
  assert.equal((await there.until(({ type }) => type === 'message')).payload, long)
  assert.equal((await sent(there, 'public:two', 'e', 'back')).status, 'ok')
  assert.equal((await here.until(({ type }) => type === 'message')).from, bo.user.id)
  // Of one caller over both, in one second and the beginning of the next.
  const [one, two] = [await talk(ana), await talk(ana, other.url)]
  await eventually(async () => assert.equal((await api.sql('select from svc.channel_nodes')).length, 2))
  const began = performance.now()
  for (let n = 0; n < 200; n++)
    for (const talker of [one, two]) talker.say({ type: 'send', channel: 'public:two', event: 'n', payload: { n } })
  for (const talker of [one, two]) await talker.ask({ type: 'ping' })
  const seconds = Math.ceil((performance.now() - began) / 1000) + 1
  assert.ok(messages(there).filter(({ event }) => event === 'n').length <= 50 * seconds)
  // Put out over there by a request here.
  await join(two, 'public:out')
  const line = `DELETE /api/realtime/channels/public:out/members/${ana.user.id}` as const
  assert.equal((await api.call(line, { as: 'admin' })).status, 204)
  assert.equal((await two.until(({ type }) => type === 'left')).reason, 'removed')
  assert.equal((await join(two, 'public:out')).code, 403)
  const killedAt = performance.now()
  await other.kill('SIGKILL')
  const gone = await here.until(({ type, left }) => type === 'presence' && left.length > 0)
  assert.deepEqual([gone.left[0].from, gone.count], [bo.user.id, 1])
  assert.ok(performance.now() - killedAt < 15_000)
  assert.equal((await api.sql('select from svc.channel_nodes')).length, 1)
  for (const talker of [here, one]) talker.close()
})
