import assert from 'node:assert/strict'
import { type IncomingHttpHeaders, request } from 'node:http'
import { test } from 'node:test'
import { eventually, startServer, type TestServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer()

type Seen = { status: number; text: string; headers: IncomingHttpHeaders }

/** A request as browsers send it, with the site in the host name. */
const visit = (server: TestServer, host: string, path: string, headers = {}, method = 'GET'): Promise<Seen> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(server.url)
    request({ hostname, port, path, method, headers: { host, ...headers } }, (answer) => {
      let text = ''
      answer.setEncoding('latin1').on('data', (chunk) => (text += chunk))
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }))
    })
      .on('error', reject)
      .end()
  })

const admin = { as: 'admin' }
const makeSite = async (slug: string, more = {}): Promise<`/api/admin/sites/${string}`> => {
  const { status, body } = await api.call('POST /api/admin/sites', { ...admin, json: { name: slug, slug, ...more } })
  assert.equal(status, 201)
  return `/api/admin/sites/${body.id}`
}
const begin = async (site: string, files: Record<string, string> = {}): Promise<string> => {
  const { body } = await api.call(`POST ${site}/deploys` as 'POST /', admin)
  for (const [name, content] of Object.entries(files)) {
    const { status } = await upload(api, `${site}/deploys/${body.id}/files`, { as: 'admin', name, content })
    assert.equal(status, 201)
  }
  return body.id
}
const promote = (site: string, id: string) => api.call(`POST ${site}/deploys/${id}/promote` as 'POST /', admin)
const publish = async (site: string, files: Record<string, string>): Promise<string> => {
  const id = await begin(site, files)
  assert.equal((await promote(site, id)).status, 200)
  return id
}

test('a site is made, listed, changed and deleted', async () => {
  const made = await api.call('POST /api/admin/sites', { ...admin, json: { name: 'Crud', slug: 'crud' } })
  const { id, createdAt, updatedAt, ...rest } = made.body
  assert.deepEqual([made.status, rest], [201, { name: 'Crud', slug: 'crud', spaMode: false }])
  assert.ok(createdAt && updatedAt)
  const changed = await api.call(`PUT /api/admin/sites/${id}`, { ...admin, json: { spaMode: true, slug: 'other' } })
  assert.deepEqual([changed.body.name, changed.body.slug, changed.body.spaMode], ['Crud', 'crud', true])
  const list = await api.call('GET /api/admin/sites?perPage=1', admin)
  assert.deepEqual([list.body.sites[0].id, list.body.page, list.body.perPage], [id, 1, 1])
  assert.equal((await api.call(`DELETE /api/admin/sites/${id}`, admin)).status, 204)
  assert.deepEqual((await api.call(`GET /api/admin/sites/${id}`, admin)).body, {
    code: 404,
    error: 'site_not_found',
    message: 'site not found',
  })
})

test('what a site cannot be is told', async () => {
  await makeSite('taken')
  const cases: [unknown, number, string][] = [
    [{ slug: 'a' }, 400, 'site name is required'],
    [{ name: ' ', slug: 'a' }, 400, 'site name is required'],
    [{ name: 'a' }, 400, 'site slug is required'],
    ...['A', '-a', 'a-', 'a.b', 'a_b', 'x'.repeat(64), 'ü'].map((slug): [unknown, number, string] => [
      { name: 'a', slug },
      400,
      'invalid site slug',
    ]),
    [{ name: 'a', slug: 'taken' }, 409, 'site slug already taken'],
    [{ name: 'a', slug: 'b', spaMode: 'yes' }, 400, 'spaMode must be a boolean'],
  ]
  for (const [json, code, message] of cases) {
    const { body } = await api.call('POST /api/admin/sites', { ...admin, json })
    assert.deepEqual([body.code, body.message], [code, message])
  }
  assert.equal((await api.call('GET /api/admin/sites/x', admin)).body.message, 'invalid site id format')
})

test('a deploy goes from uploading to live to superseded, and back by rollback', async () => {
  const site = await makeSite('states')
  const [one, two] = [await publish(site, { 'index.html': 'one' }), await publish(site, { 'index.html': 'two' })]
  const status = async (id: string) => (await api.call(`GET ${site}/deploys/${id}` as 'GET /', admin)).body.status
  assert.deepEqual([await status(one), await status(two)], ['superseded', 'live'])
  const back = await api.call(`POST ${site}/deploys/rollback` as 'POST /', admin)
  assert.deepEqual([back.status, back.body.id, back.body.status], [200, one, 'live'])
  assert.equal((await visit(api, 'states.localhost', '/')).text, 'one')
  await api.call(`POST ${site}/deploys/rollback` as 'POST /', admin)
  assert.deepEqual([await status(one), await status(two)], ['superseded', 'live'])
  assert.equal((await api.call(`GET ${site}` as 'GET /', admin)).body.liveDeployId, two)
  assert.equal(
    (await promote(site, two)).body.message,
    'invalid deploy status transition: cannot promote deploy with status "live"',
  )
  assert.equal((await promote(site, one)).status, 200)
  const three = await begin(site)
  const failed = await api.call(`POST ${site}/deploys/${three}/fail` as 'POST /', {
    ...admin,
    json: { errorMessage: 'no' },
  })
  assert.deepEqual([failed.body.status, failed.body.errorMessage], ['failed', 'no'])
  const again = await api.call(`POST ${site}/deploys/${three}/fail` as 'POST /', { ...admin, json: {} })
  assert.deepEqual(again.body, {
    code: 409,
    error: 'wrong_state',
    message: 'invalid deploy status transition: cannot fail deploy with status "failed"',
  })
  const { body } = await api.call(`GET ${site}/deploys` as 'GET /', admin)
  assert.deepEqual([body.totalCount, body.deploys[0].id], [3, three])
  const fresh = await makeSite('fresh')
  const nothing = await api.call(`POST ${fresh}/deploys/rollback` as 'POST /', admin)
  assert.deepEqual(nothing.body, { code: 409, error: 'wrong_state', message: 'no superseded deploy to rollback to' })
})

test('files are counted once each, and refused where they cannot be', async () => {
  const site = await makeSite('files')
  const id = await begin(site, { 'index.html': '12345', 'a\\b.txt': '1' })
  const replaced = await upload(api, `${site}/deploys/${id}/files`, { as: 'admin', name: 'index.html', content: '123' })
  assert.deepEqual([replaced.body.fileCount, replaced.body.totalBytes], [2, 4])
  for (const name of ['../x', '/x', 'a//b', '..\\x', '.']) {
    const { body } = await upload(api, `${site}/deploys/${id}/files`, { as: 'admin', name })
    assert.deepEqual(body, { code: 400, error: 'validation_failed', message: 'invalid file path' }, name)
  }
  await promote(site, id)
  assert.equal((await visit(api, 'files.localhost', '/a/b.txt')).text, '1')
  const late = await upload(api, `${site}/deploys/${id}/files`, { as: 'admin', name: 'late' })
  assert.deepEqual(late.body, { code: 409, error: 'wrong_state', message: 'deploy is not accepting file uploads' })
  assert.equal((await api.call('GET /api/storage/_svc_sites', admin)).status, 400)
})

test('only files the site does not have need an upload', async () => {
  const site = await makeSite('manifest')
  const sha = async (text: string) =>
    Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(text))).toString('hex')
  await publish(site, { 'index.html': 'same', 'old.js': 'old' })
  const id = await begin(site)
  const files = [
    { path: 'index.html', sha256: await sha('same') },
    { path: 'copy.html', sha256: await sha('same') },
    { path: 'new.js', sha256: await sha('new') },
  ]
  const { status, body } = await api.call(`POST ${site}/deploys/${id}/manifest` as 'POST /', {
    ...admin,
    json: { files },
  })
  assert.deepEqual([status, body.missing, body.deploy.fileCount, body.deploy.totalBytes], [200, ['new.js'], 2, 8])
  await upload(api, `${site}/deploys/${id}/files`, { as: 'admin', name: 'new.js', content: 'new' })
  await promote(site, id)
  assert.equal((await visit(api, 'manifest.localhost', '/copy.html')).text, 'same')
  assert.equal((await visit(api, 'manifest.localhost', '/old.js')).status, 404)
})

test('paths find files, directories their pages, and what is missing 404.html', async () => {
  const site = await makeSite('paths')
  await publish(site, {
    'index.html': 'home',
    'docs/index.html': 'docs',
    '404.html': 'lost',
    'a b/ü.txt': 'awkward',
    'app.3f9ab21c.js': 'hashed',
    'app.js': 'plain',
  })
  const get = (path: string, headers = {}) => visit(api, `paths.localhost:1234`, path, headers)
  const seen = async (path: string) => {
    const { status, text } = await get(path)
    return [status, text]
  }
  assert.deepEqual(await seen('/'), [200, 'home'])
  assert.deepEqual(await seen('/?utm=100%'), [200, 'home'])
  assert.deepEqual(await seen('/docs'), [200, 'docs'])
  assert.deepEqual(await seen('/docs/'), [200, 'docs'])
  assert.deepEqual(await seen('/a%20b/%C3%BC.txt'), [200, 'awkward'])
  for (const path of ['/none', '/docs/none', '/../etc/passwd', '/index.html/', '//']) {
    assert.deepEqual(await seen(path), [404, 'lost'], path)
  }
  assert.equal((await get('/%zz')).status, 404)
  assert.equal((await get('/')).headers['cache-control'], 'no-cache')
  assert.equal((await get('/')).headers['content-type'], 'text/html; charset=utf-8')
  assert.equal((await get('/app.js')).headers['cache-control'], 'max-age=3600')
  assert.equal((await get('/app.3f9ab21c.js')).headers['cache-control'], 'public, max-age=31536000, immutable')
  const { headers } = await get('/')
  assert.equal(headers['x-content-type-options'], 'nosniff')
  for (const name of ['x-frame-options', 'referrer-policy', 'permissions-policy', 'access-control-allow-origin']) {
    assert.equal(headers[name], undefined, name)
  }
  assert.equal((await get('/', { 'if-none-match': headers.etag })).status, 304)
  const head = await visit(api, 'paths.localhost', '/', {}, 'HEAD')
  assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', '4'])
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
    const refused = await visit(api, 'paths.localhost', '/', {}, method)
    assert.deepEqual([refused.status, refused.headers.allow], [405, 'GET, HEAD'], method)
  }
})

test('a client that accepts it gets the precompressed twin, with its own version', async () => {
  const site = await makeSite('twins')
  await publish(site, { 'app.js': 'plain', 'app.js.br': 'brotli', 'app.js.gz': 'gzip' })
  const get = (accepts?: string) =>
    visit(api, 'twins.localhost', '/app.js', accepts ? { 'accept-encoding': accepts } : {})
  const plain = await get()
  assert.deepEqual(
    [plain.text, plain.headers['content-encoding'], plain.headers.vary],
    ['plain', undefined, 'Accept-Encoding'],
  )
  const br = await get('gzip, deflate, br')
  assert.deepEqual([br.text, br.headers['content-encoding'], br.headers.vary], ['brotli', 'br', 'Accept-Encoding'])
  assert.match(String(br.headers['content-type']), /javascript/)
  assert.notEqual(br.headers.etag, plain.headers.etag)
  assert.equal((await get('gzip')).text, 'gzip')
  assert.equal((await get('br;q=0, gzip;q=0')).text, 'plain')
  assert.equal((await get('*')).text, 'brotli')
})

test('the host decides: sites by name, /api and /health everywhere, the rest as ever', async () => {
  const site = await makeSite('hosts', { spaMode: true })
  assert.equal((await visit(api, 'hosts.localhost', '/')).status, 404)
  await publish(site, { 'index.html': 'spa' })
  assert.equal((await visit(api, 'HOSTS.localhost.:80', '/deep/link')).text, 'spa')
  assert.equal((await visit(api, 'hosts.localhost', '/health')).text.includes('"status":"ok"'), true)
  assert.equal((await visit(api, 'hosts.localhost', '/api/none')).status, 404)
  assert.equal((await visit(api, 'unknown.localhost', '/')).status, 404)
  for (const host of ['localhost', '127.0.0.1', 'x.hosts.localhost', '.localhost', 'hosts.evil.test']) {
    const { status, text } = await visit(api, host, '/')
    assert.equal(status, 200, host)
    assert.deepEqual(Object.keys(JSON.parse(text)), ['name', 'version', 'docs'])
  }
  const named = await startServer({ on: api, config: { 'server.public_base_url': 'https://api.example.test' } })
  assert.equal((await visit(named, 'hosts.api.example.test', '/')).text, 'spa')
  assert.doesNotMatch((await visit(named, 'hosts.example.test', '/')).text, /spa/)
})

test('while deploys are promoted under load, every page is of one whole deploy, on two servers', async () => {
  const other = await startServer({ on: api })
  const site = await makeSite('swap')
  const version = (n: number) => ({ 'index.html': `v${n} `.repeat(5000), 'app.js': `v${n}` })
  const ids = [await publish(site, version(1)), await publish(site, version(2))]
  let isOver = false
  let answers = 0
  const read = async (server: TestServer) => {
    while (!isOver) {
      const { status, text } = await visit(server, 'swap.localhost', '/')
      assert.equal(status, 200)
      assert.equal(new Set(text.trim().split(' ')).size, 1)
      answers++
    }
  }
  const readers = [api, other, api, other].map(read)
  for (let i = 0; i < 20; i++) {
    const target = i % 2
    const { status } = await promote(site, ids[target] ?? '')
    assert.equal(status, 200)
    // Answered means seen, everywhere.
    for (const server of [api, other]) {
      assert.equal((await visit(server, 'swap.localhost', '/app.js')).text, `v${target + 1}`)
    }
  }
  await eventually(() => assert.ok(answers > 20))
  isOver = true
  await Promise.all(readers)
})

test('of many promotions at once each leaves one deploy live', async () => {
  const site = await makeSite('race')
  const ids = await Promise.all(Array.from({ length: 6 }, (_, i) => begin(site, { 'index.html': String(i) })))
  const answers = await Promise.all(ids.map((id) => promote(site, id)))
  assert.ok(answers.every(({ status }) => status === 200))
  const { body } = await api.call(`GET ${site}/deploys` as 'GET /', admin)
  assert.equal(body.deploys.filter(({ status }: { status: string }) => status === 'live').length, 1)
})

test('a deleted site leaves no files', async () => {
  const site = await makeSite('gone')
  await publish(site, { 'index.html': 'x', 'b.txt': 'y' })
  await api.call(`DELETE ${site}` as 'DELETE /', admin)
  await eventually(async () => {
    await api.sql(`update svc.queue set run_at = now() where kind = 'blobs.remove' and lease_until is null`)
    const unused = await api.sql(`select from svc.blobs b where not exists (select from svc.objects o
      where o.blob_id = b.id) and not exists (select from svc.site_files f where f.blob_id = b.id)`)
    assert.equal(unused.length, 0)
  })
  assert.equal((await visit(api, 'gone.localhost', '/')).status, 404)
})

test('a site serves its scripts, styles and workers, which storage on no host does', async () => {
  const site = await makeSite('scripts')
  await publish(site, { 'index.html': '<script src="app.js">', 'app.js': 'run()', 'app.css': 'a {}' })
  for (const [path, destination] of [
    ['/app.js', 'script'],
    ['/app.js', 'serviceworker'],
    ['/app.css', 'style'],
  ] as const) {
    const { status, headers } = await visit(api, 'scripts.localhost', path, { 'sec-fetch-dest': destination })
    assert.equal(status, 200, destination)
    assert.match(headers['content-type'] ?? '', /javascript|css/)
  }
  const stored = await visit(api, 'scripts.localhost', '/api/storage/open/app.js', { 'sec-fetch-dest': 'script' })
  assert.equal(stored.status, 403)
})
