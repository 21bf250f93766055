import { before, test } from 'node:test'
import { WebSocket } from 'ws'
import { type InProcessServer, startServer } from '../../test/kit/kit.ts'
import type { SocketType } from '../src/core.ts'
import { cases } from './cases/all.ts'
import { events } from './cases/events.ts'
import { runCase } from './cases/kit.ts'
import { SCHEMA } from './schema.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
})

const options = { timeout: 60_000 }
for (const [name, work] of Object.entries(cases)) test(name, options, () => runCase(work, { url: api.url }))

// Node 20 has none of its own, so above changes come as streams.
const sockets = { WebSocket: WebSocket as unknown as SocketType }
for (const [name, work] of Object.entries(events)) {
  test(`by a WebSocket: ${name}`, options, () => runCase(work, { url: api.url, options: sockets }))
}
