import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { beginUpload, upload } from '../../../test/kit/upload.ts'

const api = await startServer()
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
const bucketOf = (json: object) => api.call('POST /api/admin/storage/buckets', { as: 'admin', json })
await bucketOf({ name: 'ruled', access: 'policies' })
await bucketOf({ name: 'vault', access: 'private' })
const isAdas = `owner = svc.uid() or svc.uid() = '${ada.user.id}'`
await api.sql(`create policy wide on svc.objects using (${isAdas}) with check (${isAdas})`)
// What a careless operator could write: functions that run as their caller.
await api.sql(`
  create function public.put_row(b text, n text) returns void language sql as $$ insert into svc.objects (bucket, name, content_type) values (b, n, 'text/plain') $$;
  create function public.steal(n text) returns void language plpgsql as $$ begin execute format('update svc.objects set %s', n); end $$;
  create function public.rename(b text, f text, n text) returns bigint language plpgsql as $$
    declare c bigint; begin update svc.objects set bucket = b, name = n where name = f; get diagnostics c = row_count; return c; end $$;
  create function public.claim(n text) returns void language plpgsql as $$ begin
    perform set_config('svc.upload', repeat('0', 64) || ' {"kind":"upload","bucket":"ruled","name":"' || n || '","isNew":true,"blob":"' || gen_random_uuid() || '"}', true);
    insert into svc.objects (bucket, name, content_type) values ('ruled', n, 'text/plain'); end $$;
  create function public.everything() returns setof text language sql as $$ select bucket || '/' || name from svc.objects $$`)
await api.call('POST /api/admin/schema/reload', { as: 'admin' })
const rpc = (name: string, json: object, as = ada.token) => api.call(`POST /api/rpc/${name}`, { as, json })
const put = (bucket: string, name: string, as: string, content = 'x') =>
  upload(api, `/api/storage/${bucket}`, { as, name, content })

test('callers write neither bytes nor owners nor sizes of objects, whatever functions they find', async () => {
  assert.equal((await put('ruled', 'mine.txt', ada.token)).status, 201)
  assert.equal((await rpc('put_row', { b: 'ruled', n: 'made.txt' })).status, 403)
  for (const change of [
    `blob_id = gen_random_uuid()`,
    `owner = null`,
    `size = 0`,
    `id = gen_random_uuid()`,
    `app_id = null`,
  ]) {
    assert.equal((await rpc('steal', { n: change })).status, 403, change)
  }
  assert.equal((await rpc('claim', { n: 'claimed.txt' })).status, 403)
  const [{ count }] = await api.sql(
    `select count(*)::int as count from svc.objects where name in ('made.txt', 'claimed.txt')`,
  )
  assert.equal(Number(count), 0)
})

test('a function of the operator may rename as policies allow, into no other bucket and to no bad name', async () => {
  await put('ruled', 'old.txt', ada.token, 'renamed')
  for (const bucket of ['vault', 'open'])
    assert.equal((await rpc('rename', { b: bucket, f: 'old.txt', n: 'x.txt' })).status, 403)
  for (const name of ['', '/a', 'a//b', '../a', 'a/..', 'a\\b', 'a\nb', 'x'.repeat(1025)]) {
    assert.equal((await rpc('rename', { b: 'ruled', f: 'old.txt', n: name })).status, 400, name)
  }
  assert.equal((await rpc('rename', { b: 'ruled', f: 'old.txt', n: 'né w*.txt' })).body, 1)
  const listed = await api.call('GET /api/storage/ruled?prefix=n', { as: ada.token })
  assert.deepEqual(
    listed.body.items.map(({ name }: { name: string }) => name),
    ['né w*.txt'],
  )
  assert.equal(
    (await api.call(`GET /api/storage/ruled/${encodeURIComponent('né w*.txt')}`, { as: ada.token })).text,
    'renamed',
  )
  const [{ encoded_name: encoded }] = await api.sql(`select encoded_name from svc.objects where name = 'né w*.txt'`)
  assert.equal(encoded, `${encodeURIComponent('né w').replaceAll('*', '%2A')}%2A.txt`)
})

test('rows of other buckets are seen by no caller, however wide a policy is', async () => {
  await put('vault', 'secret.txt', bob.token)
  await put('open', 'open.txt', bob.token)
  await api.sql(`create policy widest on svc.objects using (true) with check (true)`)
  await put('ruled', 'of-bob.txt', bob.token)
  const { body } = await rpc('everything', {})
  const seen: string[] = body.map(({ everything }: { everything: string }) => everything)
  assert.ok(seen.includes('ruled/of-bob.txt'))
  assert.deepEqual(
    seen.filter((name) => !name.startsWith('ruled/')),
    [],
  )
  assert.equal((await api.call('GET /api/storage/vault/secret.txt', { as: ada.token })).status, 403)
  await api.sql('drop policy widest on svc.objects')
})

test('svc.objects is no collection, type of GraphQL, batch or import target', async () => {
  for (const name of ['svc.objects', 'objects']) {
    for (const as of [ada.token, 'admin']) {
      assert.equal((await api.call(`GET /api/collections/${name}`, { as })).status, 404, name)
      const batch = { operations: [{ method: 'create', collection: name, body: {} }] }
      assert.notEqual((await api.call('POST /api/batch', { as, json: batch })).status, 200, name)
    }
  }
  const query = '{ __schema { types { name } } }'
  const types = await api.call('POST /api/graphql', { as: 'admin', json: { query } })
  assert.doesNotMatch(types.text, /svc_objects|SvcObjects/)
  assert.doesNotMatch((await api.call('GET /api/schema', { as: 'admin' })).text, /"svc\.objects"/)
})

test('a stream of svc.objects tells of what the policies show, and only where it is named', async () => {
  const mine = await listenTo(api.url, { token: bob.token, query: { tables: 'svc.objects' } })
  const all = await listenTo(api.url, { token: await api.adminToken(), query: { tables: 'svc.objects' } })
  await put('ruled', 's-ada.txt', ada.token)
  await put('vault', 's-vault.txt', bob.token)
  await put('ruled', 's-bob.txt', bob.token)
  await api.call('DELETE /api/storage/ruled/s-bob.txt', { as: bob.token })
  const gone = await mine.until(({ data }) => data.action === 'delete')
  const changes = mine.changes().map(({ action, table, record }) => [action, table, record.name])
  assert.deepEqual(changes[0], ['create', 'objects', 's-bob.txt'])
  assert.equal(gone.data.table, 'objects')
  assert.equal(changes.length, 2)
  const [{ record }] = mine.changes()
  const columns = ['id', 'bucket', 'name', 'owner', 'size', 'content_type', 'metadata', 'created_at', 'updated_at']
  assert.deepEqual(Object.keys(record).sort(), columns.sort())
  await all.until(({ data }) => data.record?.name === 's-vault.txt')
  for (const stream of [mine, all]) stream.close()
})

test('a key that is limited to tables hears of files with a storage scope alone', async () => {
  const keyOf = async (scope: string): Promise<string> => {
    const json = { userId: ada.user.id, name: scope, scope, allowedTables: ['posts'] }
    return (await api.call('POST /api/admin/api-keys', { as: 'admin', json })).body.key
  }
  const [without, withScope] = [await keyOf('readonly'), await keyOf('readonly storage:read')]
  assert.equal((await listenTo(api.url, { token: without, query: { tables: 'svc.objects' } })).status, 403)
  const heard = await listenTo(api.url, { token: withScope, query: { tables: 'svc.objects' } })
  assert.equal(heard.status, 200)
  heard.close()
})

test('rights are judged when the bytes have arrived: a policy dropped or a bucket closed meanwhile refuses', async () => {
  await api.sql(
    `create policy bobs on svc.objects for insert with check (bucket = 'ruled' and owner = '${bob.user.id}')`,
  )
  const dropped = await beginUpload(api.url, 'ruled', bob.token)
  await api.sql('drop policy bobs on svc.objects; alter policy wide on svc.objects using (false) with check (false)')
  assert.equal((await dropped.finish()).status, 403)
  await api.sql(`alter policy wide on svc.objects using (${isAdas}) with check (${isAdas})`)
  const closed = await beginUpload(api.url, 'ruled', bob.token)
  await api.call('DELETE /api/admin/storage/buckets/ruled?force=true', { as: 'admin' })
  assert.equal((await closed.finish()).status, 404)
  await bucketOf({ name: 'ruled', access: 'policies' })
})

test('of writers that depend on what is there one wins, and a delete holds to it too', async () => {
  const conditionally = (headers: Record<string, string>, method = 'PUT') =>
    fetch(`${api.url}/api/storage/ruled/shared.txt`, {
      method,
      headers: { authorization: `Bearer ${ada.token}`, ...headers },
      ...(method === 'PUT' && { body: String(Math.random()) }),
    })
  const six = async (headers: Record<string, string>) => {
    const answers = await Promise.all(Array.from({ length: 6 }, () => conditionally(headers)))
    return answers.map(({ status }) => status).sort()
  }
  for (let round = 0; round < 3; round++) {
    assert.deepEqual(await six({ 'if-none-match': '*' }), [201, 412, 412, 412, 412, 412])
    const { headers } = await conditionally({}, 'HEAD')
    assert.deepEqual(await six({ 'if-match': headers.get('etag') ?? '' }), [200, 412, 412, 412, 412, 412])
    const past = { 'if-unmodified-since': 'Fri, 01 Jan 2021 00:00:00 GMT' }
    assert.equal((await conditionally(past)).status, 412)
    assert.equal((await conditionally({ 'if-none-match': '*' }, 'DELETE')).status, 412)
    assert.equal((await conditionally({}, 'DELETE')).status, 204)
  }
})

test('twenty callers race for a new name: one has it, and one row is there', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => put('ruled', 'raced.txt', i % 2 ? bob.token : ada.token, String(i))),
  )
  const statuses = new Set(answers.map(({ status }) => status))
  assert.deepEqual(
    [...statuses].filter((status) => status !== 201 && status !== 403),
    [],
  )
  const [{ count, blobs }] =
    await api.sql(`select count(*)::int as count, (select count(*)::int from svc.blobs b where b.id = any (
    select blob_id from svc.objects where name = 'raced.txt')) as blobs from svc.objects where name = 'raced.txt'`)
  assert.deepEqual([Number(count), Number(blobs)], [1, 1])
})
