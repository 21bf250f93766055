import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../../test/kit/kit.ts'
import { type Talker, talkTo } from '../../../../test/kit/web-socket.ts'

let api: InProcessServer
let [ana, bo] = [] as unknown as [SignedUp, SignedUp]
before(async () => {
  api = await startServer({ config: { 'realtime.open_channels': 'public:*', 'realtime.channel_rate': 1_000 } })
  ana = await api.signUp('ana@x.test')
  bo = await api.signUp('bo@x.test')
  await api.sql(`create table seats (room text, person uuid, may_send boolean not null default true);
    create policy seated on svc.channels for select to svc_authenticated using (
      exists (select from public.seats s where 'room:' || s.room = channel and s.person = svc.uid()));
    create policy speak on svc.channels for insert to svc_authenticated with check (
      event <> 'shout' and exists (select from public.seats s where 'room:' || s.room = channel and s.person = svc.uid() and s.may_send))`)
})

const open: Talker[] = []
const talk = async ({ token }: { token: string }): Promise<Talker> => {
  const talker = await talkTo(api.url, { token })
  open.push(talker)
  return talker
}
const seat = (room: string, { user }: SignedUp) => api.sql('insert into seats values ($1, $2)', [room, user.id])
const idOf = (talker: Talker): string => talker.heard.find(({ type }) => type === 'connected').client_id
const join = (talker: Talker, channel: string, presence?: object) => talker.ask({ type: 'join', channel, presence })
const send = (talker: Talker, channel: string, event: string, payload?: unknown, more = {}) =>
  talker.ask({ type: 'send', channel, event, payload, ...more })
const messages = (talker: Talker) => talker.heard.filter(({ type }) => type === 'message')

test('members hear what others send, in their order, with who sent it; not what they send themselves', async () => {
  const [hers, his] = [await talk(ana), await talk(bo)]
  for (const talker of [hers, his]) assert.equal((await join(talker, 'public:a')).status, 'ok')
  for (let n = 0; n < 20; n++)
    hers.say({ type: 'send', channel: 'public:a', event: 'n', payload: { n }, from: bo.user.id })
  const last = await his.until(({ payload }) => payload?.n === 19)
  assert.deepEqual(last, { type: 'message', channel: 'public:a', event: 'n', payload: { n: 19 }, from: ana.user.id })
  assert.deepEqual(
    messages(his).map(({ payload }) => payload.n),
    [...Array(20).keys()],
  )
  assert.equal((await send(hers, 'public:a', 'n', 'mine', { self: true })).status, 'ok')
  assert.deepEqual(
    messages(hers).map(({ payload }) => payload),
    ['mine'],
  )
})

test('who is there is told: who joined, changed and left', async () => {
  const [hers, his] = [await talk(ana), await talk(bo)]
  const first = await join(hers, 'public:p', { name: 'Ana' })
  assert.deepEqual([first.members, first.count], [[], 1])
  const second = await join(his, 'public:p')
  assert.deepEqual(second.members, [{ from: ana.user.id, state: { name: 'Ana' }, ref: idOf(hers) }])
  const joined = await hers.until(({ type }) => type === 'presence')
  const him = { from: bo.user.id, state: null, ref: idOf(his) }
  assert.deepEqual(joined, { type: 'presence', channel: 'public:p', joined: [him], left: [], changed: [], count: 2 })
  assert.equal((await hers.ask({ type: 'presence', channel: 'public:p', state: { x: 1 } })).status, 'ok')
  const changed = await his.until(({ type, changed }) => type === 'presence' && changed.length > 0)
  assert.deepEqual(changed.changed, [{ from: ana.user.id, state: { x: 1 }, ref: idOf(hers) }])
  his.close()
  const left = await hers.until(({ type, left }) => type === 'presence' && left.length > 0)
  assert.deepEqual([left.left, left.count], [[him], 1])
  assert.equal((await hers.ask({ type: 'leave', channel: 'public:p' })).status, 'ok')
  await eventually(async () =>
    assert.deepEqual(await api.sql(`select * from svc.channel_members where channel = 'public:p'`), []),
  )
})

test('policies decide who joins and who sends which event; one may send without joining', async () => {
  await seat('1', ana)
  const [hers, his] = [await talk(ana), await talk(bo)]
  const refused = await join(his, 'room:1')
  assert.deepEqual([refused.status, refused.code, refused.error], ['error', 403, 'forbidden'])
  assert.equal((await join(hers, 'room:1')).status, 'ok')
  assert.equal((await send(his, 'room:1', 'say', 'let me in')).code, 403)
  assert.equal((await send(hers, 'room:1', 'shout')).message, 'not allowed to send to this channel')
  await api.sql('insert into seats values ($1, $2)', ['1', bo.user.id])
  assert.equal((await send(his, 'room:1', 'say', 'hello')).status, 'ok')
  await hers.until(({ payload }) => payload === 'hello')
  assert.deepEqual(messages(his), [])
})

test('who lost the right is out within a second, and hears and sends nothing after it', async () => {
  await seat('2', ana)
  await seat('2', bo)
  const [hers, his] = [await talk(ana), await talk(bo)]
  for (const talker of [hers, his]) assert.equal((await join(talker, 'room:2')).status, 'ok')
  assert.equal((await send(his, 'room:2', 'say', 1)).status, 'ok')
  const at = performance.now()
  await api.sql(`delete from seats where room = '2' and person = $1`, [bo.user.id])
  assert.deepEqual(await his.until(({ type }) => type === 'left'), {
    type: 'left',
    channel: 'room:2',
    reason: 'forbidden',
  })
  assert.ok(performance.now() - at < 5_000)
  await hers.until(({ type, left }) => type === 'presence' && left.length > 0)
  assert.equal((await send(his, 'room:2', 'say', 2)).code, 403)
  assert.equal((await send(hers, 'room:2', 'say', 3)).status, 'ok')
  assert.deepEqual(messages(his), [])
  await api.sql('create policy nobody on svc.channels as restrictive for select using (false)')
  await hers.until(({ type }) => type === 'left')
  await api.sql('drop policy nobody on svc.channels')
})

test('a request sends too: a user under policies, the operator with from null', async () => {
  await seat('3', ana)
  const hers = await talk(ana)
  await join(hers, 'room:3')
  const post = (as: string | undefined, json: object) =>
    api.call('POST /api/realtime/channels/room:3', { json, ...(as !== undefined && { as }) })
  assert.equal((await post(undefined, { event: 'say' })).status, 401)
  assert.equal((await post(bo.token, { event: 'say' })).status, 403)
  assert.equal((await post(ana.token, { event: 'say', payload: 1 })).status, 204)
  const dry = await api.call('POST /api/realtime/channels/room:3', {
    as: ana.token,
    json: { event: 'say', payload: 'dry' },
    headers: { 'dry-run': 'true' },
  })
  assert.equal(dry.status, 400)
  assert.equal((await post('admin', { event: 'shout', payload: 2 })).status, 204)
  await hers.until(({ payload }) => payload === 2)
  assert.deepEqual(
    messages(hers).map(({ from, event }) => [from, event]),
    [
      [ana.user.id, 'say'],
      [null, 'shout'],
    ],
  )
})

test('who the operator puts out is out at once, and neither joins nor sends for ten minutes', async () => {
  const [hers, his] = [await talk(ana), await talk(bo)]
  for (const talker of [hers, his]) await join(talker, 'public:k')
  await send(his, 'public:k', 'say', 'before')
  const line = `DELETE /api/realtime/channels/public:k/members/${bo.user.id}` as const
  assert.equal((await api.call(line, { as: ana.token })).status, 401)
  assert.equal((await api.call(line, { as: 'admin' })).status, 204)
  assert.equal((await his.until(({ type }) => type === 'left')).reason, 'removed')
  assert.equal((await join(his, 'public:k')).message, 'removed from this channel')
  assert.equal((await send(his, 'public:k', 'say', 'after')).code, 403)
  assert.equal(
    (await api.call('POST /api/realtime/channels/public:k', { as: bo.token, json: { event: 'say' } })).status,
    403,
  )
  await api.sql(`update svc.channel_bans set ends_at = now()`)
  assert.equal((await join(his, 'public:k')).status, 'ok')
})

test('the routes of row security take svc.channels', async () => {
  const json = { schema: 'svc', table: 'channels', name: 'lobby', command: 'SELECT', using: `channel = 'lobby'` }
  const his = await talk(bo)
  assert.equal((await join(his, 'lobby')).code, 403)
  assert.equal((await api.call('POST /api/admin/rls', { as: 'admin', json })).status, 201)
  assert.equal((await join(his, 'lobby')).status, 'ok')
  const { body } = await api.call('GET /api/admin/rls/svc.channels', { as: 'admin' })
  assert.deepEqual(
    body.map(({ policyName }: { policyName: string }) => policyName),
    ['lobby', 'seated', 'speak'],
  )
  const explain = async (operation: string, row: object) =>
    (
      await api.call('POST /api/admin/rls/explain', {
        as: 'admin',
        json: { table: 'svc.channels', operation, user_id: bo.user.id, row },
      })
    ).body
  const may = await explain('select', { channel: 'lobby' })
  assert.deepEqual([may.allowed, may.decidedBy, may.table], [true, ['lobby'], 'svc.channels'])
  assert.equal((await explain('select', { channel: 'other' })).allowed, false)
  assert.equal((await explain('insert', { channel: 'lobby', event: 'say' })).allowed, false)
  assert.deepEqual((await explain('insert', { channel: 'room:1', event: 'say' })).decidedBy, ['speak'])
  assert.equal((await api.call('POST /api/admin/rls/svc.channels/disable', { as: 'admin' })).status, 400)
  assert.equal((await api.call('DELETE /api/admin/rls/svc.channels/lobby', { as: 'admin' })).status, 204)
  await his.until(({ type }) => type === 'left')
  assert.equal((await api.call('GET /api/admin/rls/svc.users', { as: 'admin' })).status, 400)
})

test('an administrator sees who is connected and who is in which channel, with their states', async () => {
  const hers = await talk(ana)
  await join(hers, 'public:who', { typing: true })
  const { status, body } = await api.call('GET /api/admin/realtime', { as: 'admin' })
  assert.equal(status, 200)
  const mine = body.connections.find(({ user_id }: { user_id: string }) => user_id === ana.user.id)
  assert.deepEqual(
    [mine.caller, mine.email, mine.via, mine.key_id, mine.impersonated_by],
    ['user', 'ana@x.test', 'websocket', null, null],
  )
  assert.ok(Date.parse(mine.since) <= Date.now() && Date.parse(mine.expires_at) > Date.now())
  assert.ok(body.count >= body.connections.length)
  const channel = body.channels.find(({ channel: name }: { channel: string }) => name === 'public:who')
  assert.deepEqual([channel.count, channel.members.length], [1, 1])
  const [{ state, ...member }] = channel.members
  assert.deepEqual([member, JSON.parse(state)], [{ user_id: ana.user.id, email: 'ana@x.test' }, { typing: true }])
  assert.equal((await api.call('GET /api/admin/realtime', { as: ana.token })).status, 401)
  hers.close()
  await eventually(async () => {
    const later = await api.call('GET /api/admin/realtime', { as: 'admin' })
    assert.equal(
      later.body.channels.some(({ channel: name }: { channel: string }) => name === 'public:who'),
      false,
    )
  })
})
