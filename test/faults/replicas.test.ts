import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../kit/kit.ts'
import { type Node, startReplicated } from '../kit/replicated.ts'

let primary: Node
let standby: Node
let api: InProcessServer
let other: InProcessServer
let ann: SignedUp

before(async () => {
  const nodes = await startReplicated(2)
  ;[primary, standby] = nodes as [Node, Node]
  const config = {
    'database.url': primary.url,
    'database.replica_urls': [standby.url],
    'graphql.enabled': true,
    'database.acquire_timeout': 60,
  }
  api = await startServer({ config })
  await primary.sql(`
    create table notes (id int primary key, title text);
    create view place as select 1 as id, inet_server_port() as port;
    create view heavy as select 1 as id, inet_server_port() as port, (select count(*) from generate_series(1, 100000)) as n;
    create sequence numbers;
    create view drawn as select nextval('numbers') as number, inet_server_port() as port;
    create view over_drawn as select * from drawn;
    create function luck() returns boolean language sql volatile as 'select true';
    create table guarded (id int primary key, port int generated always as (0) stored);
    alter table guarded enable row level security;
    create policy p on guarded using (luck());`)
  other = await startServer({ config })
  ann = await api.signUp('ann@x.test')
})

const portOf = async (path = 'place', server = api, as: string | undefined = ann.token): Promise<number> => {
  const { status, body } = await server.call(`GET /api/collections/${path}`, { ...(as && { as }) })
  assert.equal(status, 200)
  return body.items[0].port
}

/** Until the replica serves reads, which it does when it is known and close. */
const inUse = (server = api) =>
  eventually(async () => assert.equal(await portOf('place', server), standby.port, 'reads go to the replica'))

test('lists, reads and GraphQL queries go to the replica; views over volatile functions and the admin to the primary', async () => {
  await inUse()
  const query = (text: string) => api.call('POST /api/graphql', { as: ann.token, json: { query: text } })
  await eventually(async () => {
    assert.equal((await query('{ place { port } }')).body.data.place[0].port, standby.port)
  })
  assert.equal((await query('{ place { port } drawn { port } }')).body.data.place[0].port, primary.port)
  for (const view of ['drawn', 'over_drawn']) assert.equal(await portOf(view), primary.port)
  const asAdmin = await api.call('GET /api/collections/place', { as: 'admin' })
  assert.equal(asAdmin.body.items[0].port, primary.port)
  assert.equal((await api.call('GET /api/collections/guarded', { as: ann.token })).status, 200)
})

test('while the replica is busy the primary reads too', async () => {
  await inUse()
  // As many at once as it takes, which is up to the machine too.
  await eventually(async () => {
    const ports = await Promise.all(Array.from({ length: 24 }, () => portOf('heavy')))
    assert.deepEqual(new Set(ports), new Set([standby.port, primary.port]))
  })
  await inUse()
})

test('what was written is read at once: through another process with the position, through the same without', async () => {
  await inUse()
  await inUse(other)
  let fromReplica = 0
  for (let id = 0; id < 150; id++) {
    const written = await api.call('POST /api/collections/notes', { as: ann.token, json: { id, title: `n${id}` } })
    assert.equal(written.status, 201)
    const position = written.headers.get('svc-position') ?? ''
    assert.match(position, /^[0-9a-f]+-[0-9a-f]+$/)
    const elsewhere = { as: ann.token, headers: { 'svc-position': position } }
    const answers = await Promise.all([
      other.call(`GET /api/collections/notes/${id}`, elsewhere),
      api.call(`GET /api/collections/notes/${id}`, { as: ann.token }),
      other.call('GET /api/collections/place', elsewhere),
    ])
    assert.deepEqual(
      answers.slice(0, 2).map(({ status }) => status),
      [200, 200],
      `write ${id} was read stale`,
    )
    if (answers[2]?.body.items[0].port === standby.port) fromReplica++
  }
  assert.ok(fromReplica > 0, 'some of them were read from the replica')
  // What visitors write and sign up as is read by whom they become.
  for (let id = 200; id < 220; id++) {
    assert.equal((await api.call('POST /api/collections/notes', { json: { id, title: 'v' } })).status, 201)
    assert.equal((await api.call(`GET /api/collections/notes/${id}`)).status, 200)
  }
  for (const bad of ['x', '1-', '9-9', `1-${'f'.repeat(16)}`, '0-0']) {
    const headers = { 'svc-position': bad }
    assert.equal((await api.call('GET /api/collections/notes/1', { as: ann.token, headers })).status, 200, bad)
  }
})

test('a replica that is paused, silent or killed costs nothing: no error and nothing stale', async () => {
  await inUse()
  let id = 1000
  const roundTrip = async () => {
    id++
    const written = await api.call('POST /api/collections/notes', { as: ann.token, json: { id, title: 'n' } })
    assert.equal(written.status, 201)
    assert.equal((await api.call(`GET /api/collections/notes/${id}`, { as: ann.token })).status, 200)
  }
  await standby.sql('select pg_wal_replay_pause()')
  await roundTrip()
  await eventually(async () => assert.equal(await portOf(), primary.port, 'it is passed by'))
  for (let i = 0; i < 20; i++) await roundTrip()
  await standby.sql('select pg_wal_replay_resume()')
  await inUse()
  standby.signalAll('SIGSTOP')
  for (let i = 0; i < 20; i++) await roundTrip()
  assert.equal(await portOf(), primary.port)
  standby.signalAll('SIGCONT')
  await inUse()
  await standby.stop('SIGQUIT')
  for (let i = 0; i < 20; i++) await roundTrip()
  // Nor does a dead one stop a start.
  const late = await startServer({
    config: { 'database.url': primary.url, 'database.replica_urls': [standby.url] },
  })
  assert.equal(await portOf('place', late), primary.port)
  await standby.start()
  await inUse(late)
})

test('a replica that was promoted is used no more', async () => {
  await inUse()
  standby.promote()
  await eventually(async () => {
    for (let i = 0; i < 5; i++) assert.equal(await portOf(), primary.port)
  })
})

test('without replicas there is no position', async () => {
  const alone = await startServer()
  await alone.sql('create table notes (id int primary key, title text)')
  const { status, headers } = await alone.call('POST /api/collections/notes', { json: { id: 1, title: 'n' } })
  assert.equal(status, 201)
  assert.equal(headers.get('svc-position'), null)
})
