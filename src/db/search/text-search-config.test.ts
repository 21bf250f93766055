import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

test('a configuration that the database does not have keeps the server from starting, and is named', async () => {
  const api = await startServer()
  await assert.rejects(
    startServer({ on: api, config: { 'api.text_search_config': 'klingon' } }),
    /api\.text_search_config: the database has no text search configuration "klingon"/,
  )
})

test('words are read in the language that is configured, also of a schema of its own', async () => {
  const api = await startServer()
  await api.sql(`
    create text search configuration public.plain (copy = pg_catalog.simple);
    create table notes (id int primary key, text text); insert into notes values (1, 'running'), (2, 'run')`)
  const found = async (config: string) => {
    const server = await startServer({ on: api, config: { 'api.text_search_config': config } })
    const made = await server.call('POST /api/admin/search/indexes', {
      as: 'admin',
      json: { table: 'notes', method: 'fulltext', index_name: `notes_${config.replace('.', '_')}` },
    })
    assert.equal(made.status, 201)
    return (await server.call('GET /api/collections/notes?search=run')).body.totalItems
  }
  assert.equal(await found('english'), 2)
  assert.equal(await found('simple'), 1)
  assert.equal(await found('public.plain'), 1)
})
