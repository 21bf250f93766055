import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer()
const { token } = await api.signUp('ana@x.test')

const undo = (json: object) => api.call('POST /api/admin/undo', { as: 'admin', json })
const newest = async (): Promise<{ id: string; action: string; transaction: string }> =>
  (await api.call('GET /api/admin/changes?table=svc.objects&perPage=1', { as: 'admin' })).body.items[0]
const text = async (name: string) => {
  const { status, text } = await api.call(`GET /api/storage/files/${name}`, { as: token })
  return status === 200 ? text : status
}
const stored = () =>
  api.sql(
    'select id, bucket, name, blob_id, owner, size, sha256, content_type, metadata, created_at, updated_at from svc.objects order by name',
  )

test('an object that was deleted, replaced or uploaded is put back while its bytes are there', async () => {
  await upload(api, '/api/storage/files', { as: token, name: 'a.txt', content: 'first' })
  const before = await stored()
  assert.equal((await api.call('DELETE /api/storage/files/a.txt', { as: token })).status, 204)
  const deleted = await newest()
  assert.equal(deleted.action, 'delete')
  const undone = await undo({ transaction: deleted.transaction })
  assert.deepEqual([undone.status, undone.body.undone?.[0]?.table], [200, 'svc.objects'], undone.text)
  assert.equal(await text('a.txt'), 'first')
  assert.deepEqual(await stored(), before)

  await upload(api, '/api/storage/files', { as: token, name: 'a.txt', content: 'other' })
  const replaced = await newest()
  assert.equal((await undo({ changes: [replaced.id] })).status, 200)
  assert.equal(await text('a.txt'), 'first')
  assert.equal((await undo({ changes: [(await newest()).id] })).status, 200, 'an undo can be undone')
  assert.equal(await text('a.txt'), 'other')

  await upload(api, '/api/storage/files', { as: token, name: 'b.txt', content: 'new' })
  assert.equal((await undo({ changes: [(await newest()).id] })).status, 200)
  assert.equal(await text('b.txt'), 404)
  const released = await api.sql(`select from svc.queue where kind = 'blobs.remove'`)
  assert.ok(released.length > 0, 'the bytes of what is gone are released as ever')
})

test('without its bytes, or with its name taken, it is a conflict', async () => {
  await upload(api, '/api/storage/files', { as: token, name: 'c.txt', content: 'gone soon' })
  await api.call('DELETE /api/storage/files/c.txt', { as: token })
  const { id } = await newest()
  await upload(api, '/api/storage/files', { as: token, name: 'c.txt', content: 'taken' })
  const taken = await undo({ changes: [id] })
  assert.equal(taken.status, 409)
  assert.match(taken.body.conflicts[0].message, /duplicate key|unique/)
  await api.call('DELETE /api/storage/files/c.txt', { as: token })
  await api.sql(`update svc.queue set run_at = now() where kind = 'blobs.remove'`)
  await eventually(async () => {
    const refused = await undo({ changes: [id], dry_run: true })
    assert.deepEqual([refused.status, refused.body.conflicts?.[0]?.message], [409, 'the bytes are gone'])
  })
  assert.deepEqual(
    await api.sql(`select from svc.object_bytes where not exists (select from svc.blobs b where b.id = blob_id)`),
    [],
  )
  const history = await api.call('GET /api/admin/changes?table=svc.objects&perPage=100', { as: 'admin' })
  assert.ok(!history.text.includes('blob_id'), 'which bytes they are is not told')
})

test('code of others that runs in an undo reaches no object', async () => {
  const rights = await api.sql(`select r.rolname, bool_or(has_table_privilege(r.oid, t.oid, p)) as may
    from pg_roles r, (values ('svc.objects'::regclass), ('svc.blobs'::regclass), ('svc.object_bytes'::regclass)) as t(oid),
      unnest(array['select', 'insert', 'update', 'delete']) as p
    where r.rolname = 'svc_undo_' || (select oid from pg_database where datname = current_database()) group by r.rolname`)
  assert.deepEqual(
    rights.map(({ may }) => may),
    ['f'],
  )
  await assert.rejects(
    api.sql(`select svc.undo_object('not the key', 1, true)`),
    /only the server writes the change log/,
  )
})
