import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, startServer } from '../kit/kit.ts'

/** Names that every object of JavaScript has, chosen by operators and callers for things of their own. */
const NAMES = ['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__proto__', '__defineGetter__']

const api = await startServer({ config: { 'usage.enabled': true } })
for (const name of NAMES) {
  await api.sql(`
    create type "${name}_enum" as enum ('a', 'b');
    create domain "${name}" as text check (value <> 'bad');
    create table "t_${name}" (id int primary key, "${name}" text, kind "${name}", choice "${name}_enum");
    create table "${name}s" (id int primary key, "t_${name}" int references "t_${name}");
    create function "f_${name}"("${name}" text default 'none', other int default 1) returns text
      language sql immutable as $$ select coalesce("${name}", 'null') || other $$;
    create function "${name}"() returns "${name}" language sql immutable as $$ select 'fine'::"${name}" $$`)
}
await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'select 1' } })

const isFine = ({ status, text }: Answer, what: string) => assert.ok(status < 300, `${what}: ${status} ${text}`)
const isRefused = ({ status, text }: Answer, what: string) =>
  assert.ok(status >= 400 && status < 500, `${what}: ${status} ${text}`)

test('tables, columns, types, functions and arguments may be called like what objects inherit', async () => {
  isFine(await api.call('GET /api/openapi.json', { as: 'admin' }), 'openapi')
  isFine(await api.call('GET /api/schema', { as: 'admin' }), 'schema')
  for (const name of NAMES) {
    const rows = `/api/collections/t_${name}` as const
    const row = JSON.stringify({ id: 1, kind: 'ok', choice: 'a' }).replace('{', `{"${name}":"v",`)
    const post = { body: row, headers: { 'content-type': 'application/json' } }
    isFine(await api.call(`POST ${rows}`, post), `create ${name}`)
    isFine(
      await api.call(`GET ${rows}?filter=${name}='v'&sort=${name}&fields=id,${name}&group=${name}`),
      `list ${name}`,
    )
    isFine(await api.call(`GET ${rows}?aggregate=max(${name})&group=${name}`), `aggregate ${name}`)
    // The body has no such member; what its prototype has is no value of the column.
    isFine(await api.call(`POST ${rows}`, { json: { id: 2 } }), `create without ${name}`)
    const { body } = await api.call(`GET ${rows}/2`)
    assert.deepEqual([body.id, Object.getOwnPropertyDescriptor(body, name)?.value], [2, null], name)
    isRefused(await api.call(`POST ${rows}`, { json: { id: 3, choice: 'c' } }), `bad value of ${name}`)
    isFine(await api.call(`GET /api/collections/${name}s?expand=t_${name}`), `expand ${name}`)
    const called = await api.call(`POST /api/rpc/f_${name}`, { json: { other: 2 } })
    assert.deepEqual([called.status, called.body], [200, 'none2'], name)
    isFine(await api.call(`POST /api/rpc/${name}`, { json: {} }), `call ${name}`)
  }
  const names = NAMES.filter((name) => !name.startsWith('__'))
  for (const name of names) {
    const query = `{ t_${name}(where: {${name}: {_eq: "v"}}, order_by: [{kind: ASC}]) { id ${name} kind choice } }`
    const { body } = await api.call('POST /api/graphql', { json: { query } })
    assert.deepEqual(body, { data: { [`t_${name}`]: [{ id: 1, [name]: 'v', kind: 'ok', choice: 'a' }] } }, name)
    const write = `mutation { insert_t_${name}(objects: [{id: 9}]) { returning { id ${name} } } }`
    const made = await api.call('POST /api/graphql', { json: { query: write } })
    assert.equal(made.body.errors, undefined, JSON.stringify(made.body))
  }
})

test('where callers choose from a list, what objects inherit is not on it', async () => {
  for (const name of NAMES) {
    for (const path of [
      `/api/admin/usage?period=${name}`,
      `/api/admin/usage?sort=${name}`,
      `/api/admin/usage/trends?metric=${name}`,
      `/api/admin/usage/trends?metric=api_requests&granularity=${name}`,
      `/api/admin/usage/breakdown?metric=api_requests&group_by=${name}`,
      `/api/admin/audit?operation=${name}`,
      `/api/collections/t_constructor?aggregate=${name}(id)`,
      `/api/collections/t_constructor/export.${name}`,
      `/api/collections/t_constructor?nearest=[1]&distance=${name}&vector_column=id`,
    ] as const) {
      isRefused(await api.call(`GET ${path}`, { as: 'admin' }), path)
    }
    const job = await api.call('POST /api/admin/jobs', { as: 'admin', json: { type: name } })
    assert.deepEqual([job.status, job.body.message], [400, `unknown job type: ${name}`])
    const index = { table: 't_constructor', column: 'id', method: name, metric: name }
    isRefused(await api.call('POST /api/admin/vector/indexes', { as: 'admin', json: index }), 'vector index')
    isRefused(await api.call('POST /api/admin/search/indexes', { as: 'admin', json: index }), 'search index')
    const rpc = await api.call('POST /api/rpc/f_constructor', { json: { [name === 'constructor' ? 'x' : name]: 1 } })
    if (name !== '__proto__') isRefused(rpc, `rpc argument ${name}`)
    isRefused(await api.call(`GET /api/auth/oauth/${name}`), `provider ${name}`)
    isRefused(await api.call(`POST /api/admin/email/templates/${name}/preview`, { as: 'admin', json: {} }), 'template')
  }
})
