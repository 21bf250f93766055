import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { createClient } from 'graphql-ws'
import { WebSocket } from 'ws'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
let [ana, bo] = [] as unknown as [SignedUp, SignedUp]
before(async () => {
  api = await startServer()
  ana = await api.signUp('ana@x.test')
  bo = await api.signUp('bo@x.test')
  await api.sql(`create table people (id int primary key, name text);
    create table notes (id bigint primary key, owner uuid default svc.uid(), title text, author_id int references people);
    alter table notes enable row level security;
    create policy own on notes for all to svc_authenticated using (owner = svc.uid());
    grant all on people, notes to svc_authenticated;
    insert into people values (1, 'Ada')`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/notes', { as: ana.token })).status, 200),
  )
})

const address = (): string => `${api.url.replace(/^http/, 'ws')}/api/graphql`
const clientOf = (token: string | undefined) =>
  createClient({
    url: address(),
    webSocketImpl: WebSocket,
    ...(token !== undefined && { connectionParams: { authorization: `Bearer ${token}` } }),
    retryAttempts: 0,
  })
const write = async (as: SignedUp, json: object) =>
  assert.equal((await api.call('POST /api/collections/notes', { as: as.token, json })).status, 201)

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers freely
type Heard = { results: any[]; errors: any[]; isComplete: boolean }
function listen(client: ReturnType<typeof createClient>, query: string, variables?: Record<string, unknown>) {
  const heard: Heard = { results: [], errors: [], isComplete: false }
  const stop = client.subscribe(
    { query, ...(variables && { variables }) },
    {
      next: (result) => void heard.results.push(result),
      error: (error) => void heard.errors.push(error),
      complete: () => {
        heard.isComplete = true
      },
    },
  )
  return { heard, stop }
}

test('a subscription is the list of now and of each change, by a client of graphql-ws as it is', async () => {
  const client = clientOf(ana.token)
  const query = `subscription s($from: BigInt!) {
    mine: notes(where: {id: {_gte: $from}}, order_by: {id: DESC}, limit: 2) { id title author { name } } }`
  const { heard, stop } = listen(client, query, { from: 10 })
  await eventually(() => assert.deepEqual(heard.results, [{ data: { mine: [] } }]))
  await write(ana, { id: 10, title: 'a', author_id: 1 })
  await write(bo, { id: 11, title: 'not hers' })
  await eventually(() =>
    assert.deepEqual(heard.results.at(-1), { data: { mine: [{ id: 10, title: 'a', author: { name: 'Ada' } }] } }),
  )
  assert.equal(
    (await api.call('PATCH /api/collections/people/1', { as: ana.token, json: { name: 'Bea' } })).status,
    200,
  )
  await eventually(() => assert.equal(heard.results.at(-1).data.mine[0].author.name, 'Bea'))
  assert.equal(heard.results.length, 3)
  stop()
  await eventually(() => assert.equal(heard.isComplete, true))
  await client.dispose()
})

test('queries and mutations go over the same socket; what is refused is an error of its own', async () => {
  const client = clientOf(ana.token)
  const made = listen(client, 'mutation { insert_notes(objects: [{id: 20, title: "m"}]) { affected_rows } }')
  await eventually(() => assert.equal(made.heard.isComplete, true))
  assert.deepEqual(made.heard.results, [{ data: { insert_notes: { affected_rows: 1 } } }])
  const read = listen(client, '{ notes(where: {id: {_eq: 20}}) { title } }')
  await eventually(() => assert.deepEqual(read.heard.results, [{ data: { notes: [{ title: 'm' }] } }]))
  for (const [query, message] of [
    ['subscription { notes { id } people { id } }', 'a subscription has exactly one field'],
    ['subscription { nope { id } }', 'Cannot query field "nope" on type "Subscription".'],
    ['subscription { notes(where: {id: {_eq: "x"}}) { id } }', /invalid bigint value/],
    ['subscription {', /Syntax Error/],
  ] as const) {
    const { heard } = listen(client, query)
    await eventually(() => assert.equal(heard.errors.length, 1))
    const [failure] = heard.errors[0]
    assert.equal(failure.extensions.code, 400)
    if (typeof message === 'string') assert.equal(failure.message, message)
    else assert.match(failure.message, message)
  }
  await client.dispose()
})

test('the one field may stand in fragments and more than once; each refusal is an entry of its own', async () => {
  const client = clientOf(ana.token)
  const written = [
    'subscription { ...F } fragment F on Subscription { of: people(limit: 1) { name } }',
    'subscription { ... on Subscription { of: people(limit: 1) { name } } }',
    'subscription { of: people(limit: 1) { id } of: people(limit: 1) { name } people @include(if: false) { id } }',
  ]
  for (const [i, query] of written.entries()) {
    const { heard, stop } = listen(client, query)
    await eventually(() => assert.equal(heard.results.length, 1, JSON.stringify(heard.errors)))
    assert.deepEqual(Object.keys(heard.results[0].data), ['of'])
    assert.deepEqual(Object.keys(heard.results[0].data.of[0]), i === 2 ? ['id', 'name'] : ['name'])
    stop()
  }
  const refused = async (query: string): Promise<string[]> => {
    const { heard } = listen(client, query)
    await eventually(() => assert.equal(heard.errors.length, 1, JSON.stringify(heard.results)))
    return heard.errors[0].map(({ message }: { message: string }) => message)
  }
  for (const query of [
    'subscription { ...F } fragment F on Subscription { people { id } notes { id } }',
    'subscription { people @skip(if: true) { id } }',
  ]) {
    assert.deepEqual(await refused(query), ['a subscription has exactly one field'])
  }
  assert.match(String(await refused('subscription { ...F } fragment F on Subscription { ...F }')), /within itself/)
  const both = await refused('subscription { people { qqqqqq zzzzzz } }')
  assert.deepEqual(
    both,
    ['qqqqqq', 'zzzzzz'].map((name) => `Cannot query field "${name}" on type "people".`),
  )
  await client.dispose()
})

test('over HTTP there are no subscriptions, and introspection shows them', async () => {
  const query = 'subscription { notes { id } }'
  const { body } = await api.call('POST /api/graphql', { as: ana.token, json: { query } })
  assert.equal(body.errors[0].message, 'subscriptions need a WebSocket')
  const shown = await api.call('POST /api/graphql', {
    as: ana.token,
    json: { query: '{ __schema { subscriptionType { name fields { name } } } }' },
  })
  const { name, fields } = shown.body.data.__schema.subscriptionType
  assert.equal(name, 'Subscription')
  assert.ok(fields.some((field: { name: string }) => field.name === 'notes'))
})
