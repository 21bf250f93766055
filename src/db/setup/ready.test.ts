import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

test('a start changes nothing where all is ready, and mends what was taken from its roles', async () => {
  const api = await startServer()
  await api.sql('create table notes (id int primary key)')
  const written = async () =>
    (await api.sql(`select xmin::text from svc.settings where key in ('granted_schemas', 'authenticator')`)).map(
      ({ xmin }) => xmin,
    )
  const before = await written()
  const second = await startServer({ on: api })
  assert.deepEqual(await written(), before)
  await second.stop()

  const using = async (): Promise<string[]> =>
    (
      await api.sql(`select rolname::text as name from pg_roles where rolname like 'svc\\_a%'
        and not rolsuper and has_schema_privilege(oid, 'svc', 'usage') order by 1`)
    ).map(({ name }) => name)
  const roles = await using()
  assert.ok(roles.includes('svc_anon') && roles.includes('svc_authenticated') && roles.length > 2, roles.join())
  for (const role of roles) await api.sql(`revoke usage on schema svc from ${role}`)
  assert.deepEqual(await using(), [])
  const third = await startServer({ on: api })
  assert.deepEqual(await using(), roles)
  assert.equal((await third.call('POST /api/collections/notes', { json: { id: 1 } })).status, 201)
  await third.stop()
})
