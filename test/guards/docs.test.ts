import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { routesInSources } from '../../scripts/routes.ts'
import { startServer } from '../kit/kit.ts'
import { parsed } from '../kit/parsed.ts'

const { app } = await startServer()
const served = app.routes.map(({ method, path }) => `${method} ${path}`)
const text = readFileSync('docs/api.md', 'utf8')
const documented = [...text.matchAll(/^\| (GET|POST|PUT|PATCH|DELETE) \| `?(\/[^\s`|]*)`? \|/gm)].map(
  ([, method, path]) => `${method} ${path}`,
)

test('docs/api.md and the server list the same endpoints', () => {
  assert.deepEqual(
    {
      undocumented: served.filter((line) => !documented.includes(line)),
      unknown: documented.filter((line) => !served.includes(line)),
      twice: documented.filter((line, i) => documented.indexOf(line) !== i),
    },
    { undocumented: [], unknown: [], twice: [] },
  )
})

test('every admin write leaves an audit entry', () => {
  const silent = app.routes.filter(({ auth, method, audit }) => auth === 'admin' && method !== 'GET' && !audit)
  assert.deepEqual(
    silent.map(({ method, path }) => `${method} ${path}`),
    [],
  )
})

test('every path under /api/admin asks for the admin token', () => {
  const open = app.routes.filter(({ auth, path }) => path.startsWith('/api/admin/') && auth !== 'admin')
  assert.deepEqual(open.map(({ method, path }) => `${method} ${path}`).toSorted(), [
    'GET /api/admin/status',
    'POST /api/admin/auth',
    'POST /api/admin/auth/passkey/begin',
    'POST /api/admin/auth/passkey/finish',
  ])
})

test('npm run routes finds the file of every route', () => {
  const known = routesInSources().map(({ method, path }) =>
    `${method} ${path}`.split(/\$\{\w+\}/).map((part) => part.replace(/[.{}]/g, '\\$&')),
  )
  const patterns = known.map((parts) => new RegExp(`^${parts.join('\\w+')}$`))
  assert.deepEqual(
    served.filter((line) => !patterns.some((pattern) => pattern.test(line))),
    [],
  )
})

test('an admin route answers 401 to everybody but an admin', async () => {
  const { url } = app
  for (const { method, path } of app.routes.filter(({ auth }) => auth === 'admin')) {
    const target = `${url}${path.replace(/\{\w+(?:\.\.\.)?\}/g, 'x')}`
    for (const authorization of [undefined, 'Bearer x', `Bearer ${'0'.repeat(64)}`, `Bearer svc_${'0'.repeat(48)}`]) {
      const answer = await fetch(target, { method, ...(authorization && { headers: { authorization } }) })
      assert.equal(answer.status, 401, `${method} ${path} as ${authorization}`)
      assert.deepEqual(parsed(await answer.text()), {
        code: 401,
        error: 'admin_required',
        message: 'admin authentication required',
      })
    }
  }
})

test('every file that docs/architecture.md names is there', () => {
  const architecture = readFileSync('docs/architecture.md', 'utf8')
  const named = [
    ...architecture.matchAll(/`((?:src|core|config|db|http|identity|features|app|cli|pages)\/[\w/.-]+\.ts)`/g),
  ]
  const missing = named
    .map(([, path = '']) => (path.startsWith('src/') ? path : `src/${path}`))
    .filter((path) => !existsSync(path))
  assert.ok(named.length > 20)
  assert.deepEqual(missing, [])
})
