import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`
  create table authors (id int primary key, name text);
  create table articles (id int primary key, title text, secret_titel text, author_id int references authors);
  revoke all on articles from svc_anon, svc_authenticated;
  grant select (id, title, author_id), insert on articles to svc_anon, svc_authenticated;
  create table article (id int primary key);
  revoke all on article from svc_anon, svc_authenticated;
  create function greeting() returns text language sql stable as $$ select 'hello' $$;
  create function greetings() returns text language sql stable as $$ select 'hello' $$;
  revoke execute on function greetings() from public, svc_anon, svc_authenticated`)
await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table reloaded ()' } })
const ana = await api.signUp('ana@x.test')

const meant = async (line: string, { as, json }: { as?: string; json?: object } = {}) => {
  const { status, body } = await api.call(line as 'GET /', { ...(as && { as }), ...(json && { json }) })
  assert.ok(status === 400 || status === 404, `${line} ${status}`)
  const hint = body.data?.did_you_mean
  if (hint) assert.equal(hint.code, 'did_you_mean')
  return hint?.message
}

test('an unknown name is answered with the nearest that the caller may see', async () => {
  for (const [line, name, json] of [
    ['GET /api/collections/articels', 'articles'],
    ['GET /api/collections/articles?fields=titel', 'title'],
    ['GET /api/collections/articles?sort=-titel', 'title'],
    ["GET /api/collections/articles?filter=titel='x'", 'title'],
    ["GET /api/collections/articles?filter=autor.name='x'", 'author'],
    ['GET /api/collections/articles?expand=autor', 'author'],
    ['GET /api/collections/articles?aggregate=max(titel)', 'title'],
    ['GET /api/collections/articles?facets=titel', 'title'],
    ['POST /api/collections/articles', 'title', { titel: 'x' }],
    ['POST /api/rpc/greating', 'greeting', {}],
    ['GET /api/realtime?tables=articels', 'articles'],
    ['GET /api/collections/nothing_like_it', undefined],
    ['GET /api/collections/articles?fields=__proto__', undefined],
  ] as const) {
    assert.equal(await meant(line, { as: ana.token, ...(json && { json }) }), name, line)
  }
})

test('nothing is named that the caller may not see', async () => {
  assert.equal(await meant('GET /api/collections/article', { as: ana.token }), 'articles')
  assert.equal(await meant('GET /api/collections/articles?fields=secret_title', { as: ana.token }), undefined)
  assert.equal(await meant('POST /api/rpc/greetingz', { as: ana.token, json: {} }), 'greeting')
  const limited = { userId: ana.user.id, name: 'k', allowedTables: ['authors'] }
  const { key } = (await api.call('POST /api/admin/api-keys', { as: 'admin', json: limited })).body
  assert.equal(await meant('GET /api/collections/articels', { as: key }), undefined)
  assert.equal(await meant('GET /api/collections/autors', { as: key }), 'authors')
})
