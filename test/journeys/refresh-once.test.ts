import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../kit/kit.ts'

const api = await startServer()
/** No trigger notifies, so that the server learns of a change only by polling. */
await api.sql('drop event trigger svc_schema_ddl')
await api.sql('drop event trigger svc_schema_drop')

const doors = {
  collection: {
    make: (name: string) => `create table ${name} (id int primary key)`,
    ask: (name: string) => api.call(`GET /api/collections/${name}`),
  },
  function: {
    make: (name: string) => `create function ${name}() returns int language sql as 'select 1'`,
    ask: (name: string) => api.call(`POST /api/rpc/${name}`),
  },
  GraphQL: {
    make: (name: string) => `create table ${name} (id int primary key)`,
    ask: async (name: string) => {
      const answer = await api.call('POST /api/graphql', { as: 'admin', json: { query: `{ ${name} { id } }` } })
      return { status: answer.body.errors ? 404 : answer.status }
    },
  },
  realtime: {
    make: (name: string) => `create table ${name} (id int primary key)`,
    ask: (name: string) => api.call(`HEAD /api/realtime?tables=${name}`, { as: 'admin' }),
  },
}

for (const [door, { make, ask }] of Object.entries(doors)) {
  test(`what was made a moment ago is found at its first call: ${door}`, async () => {
    const name = `new_${door.toLowerCase()}`
    await api.sql(make(name))
    assert.equal((await ask(name)).status, 200)
  })
}
