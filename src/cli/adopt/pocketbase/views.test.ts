import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hashSync } from '@node-rs/bcrypt'
import { adopting } from '../../../../test/kit/adopt.ts'
import { atEnd } from '../../../../test/kit/at-end.ts'
import { withoutInvokerViews } from '../../../../test/kit/cluster.ts'
import { startServer, storagePath } from '../../../../test/kit/kit.ts'
import { dataFolder } from '../../../../test/kit/pocketbase.ts'
import { svc } from '../../../../test/kit/programs.ts'
import type { Note, Plan } from '../plan.ts'
import { generatorOf } from './generated-text.ts'
import { adoptPocketbase } from './pocketbase.ts'

const api = await startServer()
const home = mkdtempSync(join(tmpdir(), 'svc-adopt-views-'))

const user = (id: string) => ({
  id,
  email: `${id}@x.test`,
  verified: 1,
  tokenKey: id,
  password: hashSync(`password of ${id}`, 4),
  name: `user${id}`,
})
const view = (name: string, query: string, fields: [string, string][], rule: string | null = '') => ({
  id: `view_${name}`,
  name,
  type: 'view' as const,
  query,
  fields: fields.map(([field, type]) => ({
    name: field,
    type,
    ...(type === 'relation' && { collectionId: 'posts0', maxSelect: 1 }),
  })),
  rules: { list: rule, view: rule },
})

const folder = dataFolder([
  {
    id: '_pb_users_auth_',
    name: 'users',
    type: 'auth',
    fields: [
      {
        name: 'name',
        type: 'text',
        required: true,
        min: 3,
        pattern: '^[a-z]+[0-9]*$',
        autogeneratePattern: 'users[0-9]{6}',
      },
    ],
    rules: { list: 'id = @request.auth.id', view: 'id = @request.auth.id' },
    options: {
      oauth2: { enabled: true, providers: [{ name: 'github', clientId: 'id', clientSecret: 'hush hush' }] },
      otp: { enabled: true },
    },
    indexes: ['CREATE UNIQUE INDEX `idx_name` ON `users` (`name`)'],
    rows: [user('ann'), user('bo')],
  },
  {
    id: 'posts0',
    name: 'posts',
    fields: [
      { name: 'title', type: 'text' },
      { name: 'owner', type: 'relation', collectionId: '_pb_users_auth_', maxSelect: 1 },
      { name: 'done', type: 'bool' },
      { name: 'n', type: 'number', min: 5 },
      { name: 'secret', type: 'text', hidden: true },
      { name: 'pic', type: 'file', maxSelect: 1 },
    ],
    rules: { list: 'done = true || owner = @request.auth.id', view: 'done = true || owner = @request.auth.id' },
    rows: [
      { id: 'p1', title: 'Äpfel', owner: 'ann', done: 1, n: 7, secret: 'x', pic: 'a.png' },
      { id: 'p2', title: 'b', owner: 'bo', done: 0, n: 0, secret: 'y' },
      { id: 'p3', title: 'c', owner: '', done: 1, n: 9, secret: 'z' },
    ],
  },
  {
    id: 'comments0',
    name: 'comments',
    fields: [{ name: 'post', type: 'relation', collectionId: 'posts0', maxSelect: 1 }],
    rules: { list: '', view: '' },
    rows: [
      { id: 'c1', post: 'p1' },
      { id: 'c2', post: 'p1' },
      { id: 'c3', post: 'p2' },
    ],
  },
  view(
    'totals',
    'SELECT p.id, p.title as name, COUNT(c.id) as total, (p.n + 1) as more FROM posts p LEFT JOIN comments c ON c.post = p.id WHERE p.done = 1 GROUP BY p.id ORDER BY p.title',
    [
      ['id', 'text'],
      ['name', 'text'],
      ['total', 'number'],
      ['more', 'json'],
    ],
  ),
  view(
    'mine',
    'select id, title, owner from posts',
    [
      ['id', 'text'],
      ['title', 'text'],
      ['owner', 'relation'],
    ],
    'owner = @request.auth.id && @request.auth.id != ""',
  ),
  view(
    'closed',
    'select id, title from posts',
    [
      ['id', 'text'],
      ['title', 'text'],
    ],
    null,
  ),
  view(
    'joined',
    'select id, post from comments',
    [
      ['id', 'text'],
      ['post', 'relation'],
    ],
    'post.title = "b"',
  ),
  view('fancy', 'select id, json_group_array(title) as titles from posts', [
    ['id', 'text'],
    ['titles', 'json'],
  ]),
  view('odd', 'select id, title + n as x from posts', [
    ['id', 'text'],
    ['x', 'json'],
  ]),
  view('peek', 'select id, secret from posts', [
    ['id', 'text'],
    ['secret', 'text'],
  ]),
])
atEnd(() => {
  for (const one of [home, folder]) rmSync(one, { recursive: true, force: true })
})

const adopt = (...args: string[]): Promise<{ plan: Plan; err: string }> =>
  new Promise((resolve) => {
    const env = {
      PATH: process.env['PATH'],
      SVC_DATA_DIR: join(home, 'data'),
      SVC_DATABASE_URL: api.databaseUrl,
      SVC_STORAGE_LOCAL_PATH: storagePath,
    }
    execFile(
      process.execPath,
      [...svc, 'adopt', 'pocketbase', folder, '--json', ...args],
      { cwd: home, env },
      (_error, out, err) =>
        resolve({ plan: out === '' ? undefined : JSON.parse(out), err } as { plan: Plan; err: string }),
    )
  })

test('plain view collections are views that read with the rights of who asks; others are listed', {
  skip: withoutInvokerViews,
}, async () => {
  const { plan, err } = await adopt('--apply')
  assert.equal(err, '')
  assert.deepEqual(plan.done, { tables: 3, views: 4, users: 2, rows: 8, files: 0 })
  const noteOf = (what: string, level: Note['level']): string =>
    plan.notes.find((note) => note.what === what && note.level === level)?.why ?? ''
  assert.match(noteOf('fancy', 'skipped'), /json_group_array is not plain/)
  assert.match(noteOf('odd', 'skipped'), /its query means something else here/)
  assert.match(noteOf('peek', 'skipped'), /secret is hidden/)
  assert.match(noteOf('joined.select', 'closed'), /its rule reads other collections/)
  assert.match(noteOf('files of posts', 'warning'), /records name files, and the folder has none/)
  assert.match(noteOf('users: OAuth by github, one-time codes by mail', 'skipped'), /is set up in the configuration/)
  assert.ok(!JSON.stringify(plan).includes('hush hush'))
  assert.match(noteOf('users.name', 'changed'), /its pattern is not checked here/)
  assert.deepEqual(
    plan.policies.filter(({ table }) => table === 'mine').map(({ command, from }) => [command, from]),
    [['select', 'owner = @request.auth.id && @request.auth.id != ""']],
  )

  const login = async (id: string): Promise<string> =>
    (await api.call('POST /api/auth/login', { json: { email: `${id}@x.test`, password: `password of ${id}` } })).body
      .token
  const [ann, bo] = [await login('ann'), await login('bo')]
  const list = async (name: string, as?: string) => {
    const { status, body } = await api.call(`GET /api/collections/${name}?sort=id`, as === undefined ? {} : { as })
    return status === 200 ? body.items : status
  }
  assert.deepEqual(await list('totals'), [
    { id: 'p1', name: 'Äpfel', total: 2, more: 8 },
    { id: 'p3', name: 'c', total: 0, more: 10 },
  ])
  assert.deepEqual(await list('mine'), [])
  assert.deepEqual(await list('mine', ann), [{ id: 'p1', title: 'Äpfel', owner: 'ann' }])
  assert.deepEqual(await list('mine', bo), [{ id: 'p2', title: 'b', owner: 'bo' }])
  for (const name of ['closed', 'joined', 'fancy', 'odd', 'peek']) assert.equal(await list(name, ann), 404, name)
  assert.deepEqual(
    (
      await api.sql(
        `select relname || ' ' || relowner::regrole || ' ' || reloptions::text as v from pg_class where relkind = 'v' and relnamespace = 'public'::regnamespace order by 1`,
      )
    ).map(({ v }) => v),
    ['closed', 'joined', 'mine', 'totals'].map((name) => `${name} svc_adopted {security_invoker=true}`),
  )
  await api.sql('drop view totals')
  assert.deepEqual((await adopt('--apply')).plan.done, { tables: 0, views: 0, users: 0, rows: 0, files: 0 })
})

test('zero is no number below the least, a short text is refused, and who registers gets a made name', {
  skip: withoutInvokerViews,
}, async () => {
  await assert.rejects(api.sql(`insert into posts (id, n) values ('x', 4)`), /pb_/)
  await api.sql(`insert into posts (id, n) values ('x', 0)`)
  await assert.rejects(api.sql(`update users set name = 'ab'`), /pb_/)
  const indexes = await api.sql(`select indexdef from pg_indexes where indexname = 'pb__pb_users_auth__idx_name'`)
  assert.match(String(indexes[0]?.indexdef), /^CREATE UNIQUE INDEX .* \(name\)$/)
  const { user: made } = await api.signUp('later@x.test')
  const [row] = await api.sql('select name from users where account_id = $1', [made.id])
  assert.match(row.name, /^users\d{6}$/)
})

test('patterns that are plain make texts, others none', () => {
  assert.equal(
    generatorOf('users[0-9]{6}'),
    `('u' || 's' || 'e' || 'r' || 's' || svc_pocketbase.random_of('0123456789', 6))`,
  )
  for (const pattern of ['', '[a-z]+', '(a|b)', '[^a]', "a'b", '[z-a]{3}', '\\d{3}'])
    assert.equal(generatorOf(pattern), undefined, pattern)
})

test('of a value everything arrives but what PostgreSQL has no place for, and the plan counts such values by column', async () => {
  const place = await startServer()
  const auth = (id: string, rows: ReturnType<typeof user>[], updated: string) => ({
    id,
    name: id,
    type: 'auth' as const,
    fields: [
      { name: 'name', type: 'text' },
      { name: 'updated', type: 'autodate', onUpdate: true },
    ],
    rows: rows.map((row) => ({ ...row, verified: 0, updated })),
  })
  const odd = dataFolder(
    [
      auth('_pb_users_auth_', [user('cy')], '2024-01-01 00:00:00.000Z'),
      auth('staff', [user('cy')], '2025-01-01 00:00:00.000Z'),
      {
        id: 'notes0',
        name: 'notes',
        fields: [
          { name: 'title', type: 'text' },
          { name: 'n', type: 'number' },
          { name: 'j', type: 'json' },
          { name: 'tags', type: 'select', values: ['a', 'b'], maxSelect: 2 },
          { name: 'above', type: 'relation', collectionId: 'notes0', maxSelect: 1 },
        ],
      },
    ],
    {
      external: [
        { id: 'e', collectionRef: '_pb_users_auth_', recordRef: 'cy', provider: 'github', providerId: 'older' },
        { id: 'f', collectionRef: 'staff', recordRef: 'cy', provider: 'github', providerId: 'newer' },
      ],
      walRows: String.raw`insert into notes (id, title, n, j, tags, above) values
        ('a', 'before' || char(0) || 'áfter' || char(0), 1.5, '{"a":"x\u0000y","b\u0000":[1,"\ud800","\\u0000"]}', '["a\u0000","b"]', 'cd'),
        ('c' || char(0) || 'd', 'plain', 2.5, '{"id": 12345678901234567890, "far": 1e99999999, "face": "\ud83d\ude00"}', '[]', ''),
        ('e', 'plain', 3, '{"id":12345678901234567890,"price":1.10}', 'a', 'c' || char(0) || 'd')`,
    },
  )
  atEnd(() => rmSync(odd, { recursive: true, force: true }))
  const changed = ({ notes }: Plan): string[] =>
    notes.flatMap(({ what, why }) => (why.includes('PostgreSQL does not keep') ? [what] : [])).sort()
  const noted = [
    '1 values of notes.above',
    '1 values of notes.id',
    '1 values of notes.tags',
    '1 values of notes.title',
    '2 values of notes.j',
  ]
  assert.deepEqual(changed(await adopting(adoptPocketbase, place.databaseUrl, [odd])), noted)
  const done = await adopting(adoptPocketbase, place.databaseUrl, [odd], { apply: true })
  assert.deepEqual(changed(done), noted)
  assert.deepEqual(await place.sql('select id, title, n::text, j::text, tags::text, above from notes order by id'), [
    {
      id: 'a',
      title: 'beforeáfter',
      n: '1.5',
      j: '{"a": "xy", "b": [1, "\ufffd", "\\\\u0000"]}',
      tags: '{a,b}',
      above: 'cd',
    },
    {
      id: 'cd',
      title: 'plain',
      n: '2.5',
      j: '{"id": 12345678901234567000, "far": null, "face": "😀"}',
      tags: '{}',
      above: null,
    },
    { id: 'e', title: 'plain', n: '3', j: '{"id": 12345678901234567890, "price": 1.10}', tags: '{a}', above: 'cd' },
  ])
  // The newest record decides alone on an unverified address.
  assert.deepEqual(await place.sql('select subject from svc.identities'), [{ subject: 'newer' }])
})
