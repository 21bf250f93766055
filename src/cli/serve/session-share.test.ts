import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, spawnServer } from '../../../test/kit/kit.ts'
import { niceOfSession } from '../../db/protocol/local-backend.ts'

const ownNice = niceOfSession(process.pid)
const skip = (process.getuid?.() !== 0 && 'only root may') || (ownNice === undefined && 'this system has no autogroups')
const config = { 'auth.enabled': false }

test('a server with a session of its own has more of the processor than each backend; one of a terminal changes nothing', {
  skip,
}, async () => {
  const [service, inTerminal] = await Promise.all([spawnServer({ detached: true, config }), spawnServer({ config })])
  const sharesOf = async (server: typeof service) => {
    await server.sql('create table public.notes (id bigint generated always as identity primary key, title text)')
    await eventually(async () => assert.equal((await server.call('GET /api/collections/notes')).status, 200))
    assert.equal((await server.call('POST /api/collections/notes', { json: { title: 'one' } })).status, 201)
    const rows = await server.sql(
      `select pid, query like '%insert into%notes%' as wrote from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()`,
    )
    return rows.map(({ pid, wrote }) => ({ wrote: wrote === 't', nice: niceOfSession(Number(pid)) }))
  }
  assert.equal(niceOfSession(service.child.pid ?? 0), -10)
  const writer = (await sharesOf(service)).find(({ wrote }) => wrote)
  assert.equal(writer?.nice, -10, 'its share is lent to the backend of a small write')
  assert.equal(niceOfSession(inTerminal.child.pid ?? 0), ownNice)
  for (const { nice } of await sharesOf(inTerminal)) assert.equal(nice, 0)
})
