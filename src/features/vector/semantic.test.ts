import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, test } from 'node:test'
import { type Received, startReceiver } from '../../../test/fakes/receiver.ts'
import { withoutExtensions } from '../../../test/kit/cluster.ts'
import { type Answer, startServer, type TestServer } from '../../../test/kit/kit.ts'
import { Breaker } from './embedding/breaker.ts'
import { hashProvider } from './embedding/hash.ts'

const told = ({ status, body }: Answer) => `${status} ${body.message}`
const ask = (api: TestServer, text: string, more: Record<string, string> = {}) =>
  api.call(
    `GET /api/collections/notes?${new URLSearchParams({ semantic_query: text, vector_column: 'meaning', ...more })}`,
  )
const firstId = ({ status, body }: Answer) => {
  assert.equal(status, 200, JSON.stringify(body))
  return body.items[0].id
}
const answer = (response: ServerResponse, status: number, body: unknown) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))

const TEXTS = ['the quick brown fox jumps', 'databases store rows in tables', 'bread is baked from flour']
const literals = async (dimensions: number, [open, close]: string) =>
  (await hashProvider.embed(TEXTS, dimensions))
    .map((vector, i) => `(${i + 1}, '${TEXTS[i]}', '${open}${vector.join()}${close}')`)
    .join()

test('the built-in provider answers without a network, and the same on every machine', async () => {
  const [vector = []] = await hashProvider.embed(['Héllo wörld'], 8)
  assert.deepEqual(
    vector.map((n) => Math.round(n * 1000) / 1000),
    (await hashProvider.embed(['HÉLLO, wörld!'], 8))[0]?.map((n) => Math.round(n * 1000) / 1000),
  )
  assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-9)
  const api = await startServer({ config: { 'ai.embedding_provider': 'hash' } })
  await api.sql(`create table notes (id int primary key, body text, meaning real[]);
    insert into notes values ${await literals(256, '{}')}`)
  assert.equal(firstId(await ask(api, 'which database has tables and rows')), 2)
  assert.equal(firstId(await ask(api, 'bakin bred with flour')), 3)
  assert.equal(firstId(await ask(api, 'foxes', { filter: 'id < 3' })), 1)
  assert.equal(told(await ask(api, ' ')), '400 semantic_query must not be empty')
  assert.equal(told(await ask(api, 'x'.repeat(10_001))), '400 semantic_query too long')
  assert.equal(told(await ask(api, '?!')), '400 zero vector has no cosine distance')
  assert.equal(told(await ask(api, 'x', { vector_column: 'body' })), '400 column "body" is not a vector column')
})

test('the built-in provider has the dimension of the column', { skip: withoutExtensions }, async () => {
  const api = await startServer({ postgres: 'extensions', config: { 'ai.embedding_provider': 'hash' } })
  await api.sql(`create extension vector;
    create table notes (id int primary key, body text, meaning vector(64));
    insert into notes values ${await literals(64, '[]')}`)
  assert.equal(firstId(await ask(api, 'rows of tables')), 2)
})

const peer = await startReceiver()
after(() => peer.close())
const NEAR_ONE = [1, 0]
const served = async (config: Record<string, unknown>) => {
  const api = await startServer({
    config: {
      'ai.embedding_provider': 'openai',
      'ai.openai.base_url': `${peer.url}/v1`,
      'ai.openai.api_key': 'sk-test',
      'ai.timeout': 60,
      'ai.max_retries': 1,
      'ai.breaker.open_seconds': 600,
      ...config,
    },
  })
  await api.sql(
    `create table notes (id int primary key, meaning real[]); insert into notes values (1, '{1,0}'), (2, '{0,1}')`,
  )
  peer.received.length = 0
  return api
}
const openAiAnswer = (request: Received, response: ServerResponse) => {
  const { input } = JSON.parse(request.body)
  const data = input.map((_: string, index: number) => ({ index, embedding: NEAR_ONE }))
  answer(response, 200, { data: data.reverse() })
}

test('a server that speaks like OpenAI is asked once for each question', async () => {
  const api = await served({ 'ai.embedding_model': 'tiny' })
  peer.answer = openAiAnswer
  assert.equal(firstId(await ask(api, ' what is near? ')), 1)
  assert.equal(firstId(await ask(api, 'what is near?', { distance: 'l2' })), 1)
  assert.equal(peer.received.length, 1)
  const [request] = peer.received
  assert.deepEqual(
    [request?.path, request?.headers.authorization, JSON.parse(request?.body ?? '')],
    ['/v1/embeddings', 'Bearer sk-test', { model: 'tiny', input: ['what is near?'], encoding_format: 'float' }],
  )
})

test('Ollama is asked in its own words', async () => {
  const api = await served({ 'ai.embedding_provider': 'ollama', 'ai.ollama.base_url': `${peer.url}/` })
  peer.answer = (_, response) => answer(response, 200, { embeddings: [NEAR_ONE] })
  assert.equal(firstId(await ask(api, 'near')), 1)
  const [request] = peer.received
  assert.deepEqual(
    [request?.path, JSON.parse(request?.body ?? '')],
    ['/api/embed', { model: 'nomic-embed-text', input: ['near'] }],
  )
})

test('what goes wrong at the provider has a status of its own, and its words go no further', async () => {
  const api = await served({ 'ai.breaker.failure_threshold': 1000 })
  const outcome = async (behave: typeof peer.answer, of = api): Promise<[string, number]> => {
    peer.answer = behave
    peer.received.length = 0
    return [told(await ask(of, 'x')), peer.received.length]
  }
  const status = (code: number) => (_: Received, response: ServerResponse) =>
    answer(response, code, { error: 'sk-inner' })
  assert.deepEqual(await outcome(status(429)), ['429 embedding provider is over its limit', 2])
  assert.deepEqual(await outcome(status(500)), ['502 embedding provider failed', 2])
  assert.deepEqual(await outcome(status(401)), ['502 embedding provider failed', 1])
  assert.deepEqual(await outcome(status(400)), ['502 embedding provider refused the text', 1])
  assert.deepEqual(await outcome((_, response) => response.destroy()), ['502 embedding provider failed', 2])
  for (const body of [
    {},
    { data: [] },
    { data: [{ index: 0, embedding: ['a'] }] },
    { data: [{ index: 0, embedding: [] }] },
    { data: [{ index: 0, embedding: [1, 0] }], more: 'x'.repeat(700_000) },
    null,
    'x',
  ]) {
    assert.deepEqual(await outcome((_, response) => answer(response, 200, body)), ['502 embedding provider failed', 1])
  }
  let tries = 0
  const twice = (request: Received, response: ServerResponse) =>
    ++tries === 1 ? answer(response, 503, {}) : openAiAnswer(request, response)
  peer.answer = twice
  assert.equal(firstId(await ask(api, 'again')), 1)
  const impatient = await served({ 'ai.timeout': 1 })
  const [late] = await outcome(() => {}, impatient)
  assert.equal(late, '504 embedding provider timed out')
})

test('vectors of another dimension are the operator’s to mend', { skip: withoutExtensions }, async () => {
  const api = await startServer({
    postgres: 'extensions',
    config: { 'ai.embedding_provider': 'openai', 'ai.openai.base_url': peer.url },
  })
  await api.sql('create extension vector; create table notes (id int primary key, meaning vector(3))')
  peer.answer = openAiAnswer
  assert.equal(told(await ask(api, 'x')), '500 embedding dimension mismatch')
})

test('a provider that fails again and again is left alone; known questions are answered', async () => {
  const api = await served({ 'ai.breaker.failure_threshold': 2, 'ai.max_retries': 0 })
  peer.answer = openAiAnswer
  assert.equal(firstId(await ask(api, 'known')), 1)
  peer.answer = (_, response) => answer(response, 429, {})
  for (let i = 0; i < 3; i++) assert.equal((await ask(api, `limit ${i}`)).status, 429)
  peer.answer = (_, response) => answer(response, 500, {})
  for (let i = 0; i < 2; i++) assert.equal((await ask(api, `fails ${i}`)).status, 502)
  peer.received.length = 0
  const refused = await ask(api, 'later')
  assert.equal(told(refused), '503 embedding provider is unavailable')
  const seconds = Number(refused.headers.get('retry-after'))
  assert.ok(seconds > 0 && seconds <= 600, `${seconds} s`)
  assert.equal(firstId(await ask(api, 'known')), 1)
  assert.equal(peer.received.length, 0)
})

test('after a while one call finds out whether the provider is back', async () => {
  let now = 0
  const breaker = new Breaker({ threshold: 2, openSeconds: 30, now: () => now })
  const fails = () =>
    breaker.run(
      () => Promise.reject(new Error('away')),
      () => true,
    )
  const refused = { message: 'embedding provider is unavailable' }
  for (let i = 0; i < 2; i++) await assert.rejects(fails, { message: 'away' })
  await assert.rejects(fails, refused)
  now = 30_000
  await assert.rejects(fails, { message: 'away' })
  await assert.rejects(fails, refused)
  now = 60_000
  let comeBack = (_: string): void => {}
  const trial = breaker.run(
    () => new Promise<string>((resolve) => (comeBack = resolve)),
    () => true,
  )
  await assert.rejects(fails, refused)
  comeBack('here')
  assert.equal(await trial, 'here')
  assert.equal(
    await breaker.run(
      async () => 'and on',
      () => true,
    ),
    'and on',
  )
})
