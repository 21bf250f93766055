import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hashSync } from '@node-rs/bcrypt'
import pg from 'pg'
import { adopting } from '../../../../../test/kit/adopt.ts'
import { atEnd } from '../../../../../test/kit/at-end.ts'
import { withoutInvokerViews } from '../../../../../test/kit/cluster.ts'
import { startServer, storagePath } from '../../../../../test/kit/kit.ts'
import { dataFolder } from '../../../../../test/kit/pocketbase.ts'
import { svc as program } from '../../../../../test/kit/programs.ts'
import { adoptPocketbase } from '../pocketbase.ts'

const api = await startServer()
const home = mkdtempSync(join(tmpdir(), 'svc-adopt-test-'))
const folders: string[] = []
const client = new pg.Client(api.databaseUrl)
await client.connect()
atEnd(async () => {
  await client.end()
  for (const folder of [home, ...folders]) rmSync(folder, { recursive: true, force: true })
})

type Ran = { code: number; out: string; err: string }
const adopt = (...args: string[]): Promise<Ran> => adoptInto(api, ...args)

const adoptInto = (server: { databaseUrl: string }, ...args: string[]): Promise<Ran> =>
  new Promise((resolve) => {
    const env = {
      PATH: process.env['PATH'],
      TMPDIR: process.env['TMPDIR'],
      SVC_DATA_DIR: join(home, 'data'),
      SVC_DATABASE_URL: server.databaseUrl,
      SVC_STORAGE_LOCAL_PATH: storagePath,
      SVC_STORAGE_DISK_RESERVE: '0',
    }
    const child = execFile(
      process.execPath,
      [...program, 'adopt', 'pocketbase', ...args],
      { cwd: home, env },
      (_error, out, err) => resolve({ code: child.exitCode ?? -1, out, err }),
    )
  })

const made = (...given: Parameters<typeof dataFolder>): string => {
  const folder = dataFolder(...given)
  folders.push(folder)
  return folder
}

const bcrypt = (password: string): string => hashSync(password, 4)
const person = (id: string, email: string, more: object = {}) => ({
  id,
  email,
  verified: 1,
  tokenKey: `secret-${id}`,
  password: bcrypt(`password of ${id}`),
  name: id,
  ...more,
})
const USERS = {
  id: '_pb_users_auth_',
  name: 'users',
  type: 'auth' as const,
  fields: [
    { name: 'name', type: 'text' },
    { name: 'roles', type: 'select', maxSelect: 2, values: ['editor', 'boss'] },
    { name: 'spot', type: 'geoPoint' },
  ],
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into rows freely
const read = async (text: string): Promise<any[]> => api.sql(text)

const imprint = (folder: string): string =>
  readdirSync(folder, { recursive: true })
    .map(String)
    .sort()
    .map((name) =>
      statSync(join(folder, name)).isFile()
        ? `${name} ${createHash('sha256')
            .update(readFileSync(join(folder, name)))
            .digest('hex')}`
        : name,
    )
    .join('\n')

type Row = {
  id: string
  owner: string
  title: string
  n: number
  open: boolean
  due: string
  tags: string[]
  mates: string[]
  place: { lon: number; lat: number }
  mood: string
  meta: { kind?: string | null; open?: boolean; n?: number } | null
}
const ROWS: Row[] = [
  {
    id: 'none',
    owner: '',
    title: 'Draft',
    n: 0,
    open: false,
    due: '',
    tags: [],
    mates: [],
    place: { lon: 0, lat: 0 },
    mood: '',
    meta: null,
  },
  {
    id: 'anns',
    owner: 'ann',
    title: 'draft 10%',
    n: 1,
    open: true,
    due: '2020-01-01 00:00:00.000Z',
    tags: ['red'],
    mates: ['bo'],
    place: { lon: 23.32, lat: 42.69 },
    mood: 'glad',
    meta: { kind: 'a', open: true, n: 2 },
  },
  {
    id: 'bos',
    owner: 'bo',
    title: 'ÄRGER',
    n: 2.5,
    open: false,
    due: '2999-01-01 00:00:00.000Z',
    tags: ['red', 'blue'],
    mates: ['ann', 'bo'],
    place: { lon: 24.75, lat: 42.14 },
    mood: 'sad',
    meta: { kind: 'b', open: false, n: 1 },
  },
  {
    id: 'both',
    owner: 'ann',
    title: '',
    n: -1,
    open: true,
    due: '2020-01-01 00:00:00.001Z',
    tags: ['blue'],
    mates: [],
    place: { lon: -156.68, lat: -42.69 },
    mood: 'glad',
    meta: { kind: null },
  },
]
type Who = { id: string; name: string; roles: string[] } | undefined
const PEOPLE: Who[] = [undefined, { id: 'ann', name: 'ann', roles: ['editor'] }, { id: 'bo', name: 'bo', roles: [] }]
const idOf = (who: Who): string => who?.id ?? ''

const kmTo = ({ place }: Row, lon: number, lat: number): number => {
  const [a, b, c] = [place.lat, lat, lon - place.lon].map((degrees) => (degrees * Math.PI) / 180) as [
    number,
    number,
    number,
  ]
  const cosine = Math.cos(a) * Math.cos(b) * Math.cos(c) + Math.sin(a) * Math.sin(b)
  return 6371 * Math.acos(Math.min(1, Math.max(-1, cosine)))
}

/** Rules, and what PocketBase answers. */
const RULES: [string, (row: Row, who: Who) => boolean][] = [
  ['owner = @request.auth.id', (row, who) => row.owner === idOf(who)],
  ['@request.auth.id != "" && owner = @request.auth.id', (row, who) => who !== undefined && row.owner === idOf(who)],
  ['owner != @request.auth.id', (row, who) => row.owner !== idOf(who)],
  ['geoDistance(place.lon, place.lat, 23.32, 42.69) < 150', (row) => kmTo(row, 23.32, 42.69) < 150],
  ['geoDistance(23.32, 42.69, place.lon, place.lat) >= 1000', (row) => kmTo(row, 23.32, 42.69) >= 1000],
  ['place.lat < 0', (row) => row.place.lat < 0],
  ["title = 'Draft' || open = true && n > 0", (row) => row.title === 'Draft' || (row.open && row.n > 0)],
  ["(title = 'Draft' || open = true) && n > 0", (row) => (row.title === 'Draft' || row.open) && row.n > 0],
  ['title ~ "DRAFT"', (row) => row.title.toLowerCase().includes('draft')],
  ['title !~ "draft"', (row) => !row.title.toLowerCase().includes('draft')],
  ['title ~ "ärger"', () => false],
  ['title ~ "draft%"', (row) => row.title.toLowerCase().startsWith('draft')],
  ['title = null', (row) => row.title === ''],
  ['title != ""', (row) => row.title !== ''],
  ['title < "a"', (row) => row.title < 'a'],
  ['n >= 1', (row) => row.n >= 1],
  ['n != 1', (row) => row.n !== 1],
  ['open = 1', (row) => row.open],
  ['due < @now', (row) => row.due < new Date().toISOString().replace('T', ' ')],
  ['due != "" && due <= "2020-01-01 00:00:00.000Z"', (row) => row.due !== '' && row.due <= '2020-01-01 00:00:00.000Z'],
  ['due > "2020-01-01"', (row) => row.due > '2020-01-01'],
  ['tags:each = "red"', (row) => row.tags.length > 0 && row.tags.every((tag) => tag === 'red')],
  ['tags:each ?= "red"', (row) => row.tags.includes('red')],
  ['tags:each != "red"', (row) => row.tags.every((tag) => tag !== 'red')],
  ['tags:length = 2', (row) => row.tags.length === 2],
  ['tags ~ "lue"', (row) => JSON.stringify(row.tags).includes('lue')],
  ['tags = \'["red"]\'', (row) => JSON.stringify(row.tags) === '["red"]'],
  [
    'mates.id ?= @request.auth.id',
    (row, who) => (row.mates.length === 0 ? who === undefined : row.mates.includes(idOf(who))),
  ],
  [
    'mates.id = @request.auth.id',
    (row, who) => (row.mates.length === 0 ? who === undefined : row.mates.every((mate) => mate === idOf(who))),
  ],
  ['mates ~ @request.auth.id', (row, who) => who !== undefined && JSON.stringify(row.mates).includes(who.id)],
  ['owner.name = "ann"', (row) => row.owner === 'ann'],
  ['owner.name !~ "a"', (row) => row.owner === 'bo'],
  ['title:lower = "draft"', (row) => row.title.toLowerCase() === 'draft'],
  ['@request.auth.name = owner.name', (row, who) => (who?.name ?? '') === row.owner],
  ['@request.auth.roles ~ "editor"', (_row, who) => who?.roles.includes('editor') === true],
  [
    '@request.auth.roles:each ?= "editor" && owner = @request.auth.id',
    (row, who) => who?.roles.includes('editor') === true && row.owner === who.id,
  ],
  ['@request.auth.verified = true', (_row, who) => who !== undefined],
  ['@request.auth.collectionName = "users"', (_row, who) => who !== undefined],
  [
    '@collection.teams.member ?= @request.auth.id && @collection.teams.doc ?= id',
    (row, who) => (idOf(who) === 'ann' && row.id === 'bos') || (idOf(who) === 'bo' && row.id === 'none'),
  ],
  [
    'teams_via_of.member ?= @request.auth.id',
    (row, who) => (row.id === 'bos' ? idOf(who) === 'ann' : row.id === 'none' ? idOf(who) === 'bo' : who === undefined),
  ],
  [`title = "${'x'.repeat(10_000)}" || n = 1`, (row) => row.n === 1],
]

const isMember = (who: Who): boolean => who !== undefined
/** The rest of the grammar, and the examples of PocketBase's own pages; what decides about writing is the same SQL. */
const READ_RULES: typeof RULES = [
  [
    '@request.auth.id != "" && (title = "Draft" || n = 1)',
    (row, who) => isMember(who) && (row.title === 'Draft' || row.n === 1),
  ],
  ['n > 0 // of those\n && open = TRUE', (row) => row.n > 0 && row.open],
  ['title = NULL', (row) => row.title === ''],
  ['owner.id = @request.auth.id', (row, who) => row.owner === idOf(who)],
  ['tags:length > 1', (row) => row.tags.length > 1],
  ['tags:each ~ "re"', (row) => row.tags.length > 0 && row.tags.every((tag) => tag.includes('re'))],
  ['tags:each ?~ "re"', (row) => row.tags.some((tag) => tag.includes('re'))],
  ['mood:length = 0', (row) => row.mood === ''],
  ['mood:each = "glad"', (row) => row.mood === 'glad'],
  ['mates.name ?!= "ann"', (row) => row.mates.length === 0 || row.mates.includes('bo')],
  ['mates.name ?~ "b"', (row) => row.mates.includes('bo')],
  ['n ?> 0 && n ?>= 1', (row) => row.n >= 1],
  ['n ?< 1 && n ?<= 0', (row) => row.n <= 0],
  ['title ?!~ "dra"', (row) => !row.title.toLowerCase().includes('dra')],
  ['@request.auth.collectionId = "_pb_users_auth_"', (_row, who) => isMember(who)],
  ['@request.auth.emailVisibility = false', (_row, who) => isMember(who)],
  ['@request.auth.email ~ "ann@"', (_row, who) => idOf(who) === 'ann'],
  [
    '@collection.teams:mine.member ?= @request.auth.id && @collection.teams:any.doc ?= id',
    (row, who) => isMember(who) && ['bos', 'none'].includes(row.id),
  ],
  ['@collection.teams0000000000.member ?= @request.auth.id', (_row, who) => isMember(who)],
  ['@collection.teams.member.name ?= "ann" && n = 1', (row) => row.n === 1],
  [
    '@request.auth.teams_via_member.doc ?= id',
    (row, who) => (idOf(who) === 'ann' && row.id === 'bos') || (idOf(who) === 'bo' && row.id === 'none'),
  ],
  ['meta.open = true', (row) => row.meta?.open === true],
  ['meta.open = false', (row) => row.meta?.open === false],
  ['meta.kind = "a"', (row) => row.meta?.kind === 'a'],
  ['meta.kind != "a"', (row) => row.meta?.kind !== 'a'],
  ['meta.kind = ""', () => false],
  ['meta.kind = null', (row) => (row.meta?.kind ?? null) === null],
  ['meta = null', (row) => row.meta === null],
  ['meta.n = 1', (row) => row.meta?.n === 1],
  [`strftime('%Y', due) = '2020'`, (row) => row.due.startsWith('2020')],
  [`strftime('%Y-%m', due) != '2020-01'`, (row) => !row.due.startsWith('2020-01')],
  [`strftime("%d, %H:%M:%f", due) = "01, 00:00:00.001"`, (row) => row.due.endsWith('00:00:00.001Z')],
  [`strftime('%Y', due) = ''`, (row) => row.due === ''],
  [`strftime('%Y', @now) > '2000' && strftime('%w', due) = '3'`, (row) => row.due.startsWith('2020')],
  [
    '@yesterday < @now && @tomorrow > @now && @todayStart <= @now && @todayEnd >= @now && @monthStart <= @now && @monthEnd >= @now && @yearStart <= @now && @yearEnd >= @now',
    () => true,
  ],
  [
    '@second <= 59 && @minute <= 59 && @hour <= 23 && @day >= 1 && @month <= 12 && @year > 2000 && @weekday <= 6',
    () => true,
  ],
  ['geoDistance(mates.spot.lon, mates.spot.lat, 0, 0) < 10', (row) => row.mates.includes('ann')],
]

/** What a database cannot know, or says in another way: closed, and listed. */
const CLOSED_RULES: string[] = [
  '@request.method = "GET"',
  '@request.context != "oauth2"',
  '@request.headers.x_token = "1"',
  '@request.query.page ?= 1',
  '@request.body.title:isset = false',
  'meta.n > 1',
  'meta = meta',
  `strftime('%W', due) = '1'`,
  `strftime('%Y', due, '+1 day') = '1'`,
  `lower(title) = 'x'`,
  'owner.nothing = 1',
  'title = ',
  '@collection.nowhere.id ?= id',
]

const DOC_FIELDS = [
  { name: 'owner', type: 'relation', collectionId: USERS.id, maxSelect: 1, cascadeDelete: true },
  { name: 'title', type: 'text' },
  { name: 'n', type: 'number' },
  { name: 'open', type: 'bool' },
  { name: 'due', type: 'date' },
  { name: 'tags', type: 'select', maxSelect: 3, values: ['red', 'blue'] },
  { name: 'mates', type: 'relation', collectionId: USERS.id, maxSelect: 9 },
  { name: 'place', type: 'geoPoint' },
  { name: 'mood', type: 'select', maxSelect: 1, values: ['glad', 'sad'] },
  { name: 'meta', type: 'json' },
]
const docRows = ROWS.map((row) => ({
  ...row,
  open: row.open ? 1 : 0,
  tags: JSON.stringify(row.tags),
  mates: JSON.stringify(row.mates),
  place: JSON.stringify(row.place),
  meta: JSON.stringify(row.meta),
}))

const folder = made(
  [
    {
      ...USERS,
      rules: { list: '', view: '', update: 'id = @request.auth.id' },
      rows: [
        person('ann', 'Ann@example.com', { roles: '["editor"]' }),
        person('bo', 'bo@example.com', { roles: '[]', spot: '{"lon":50,"lat":50}' }),
        person('cy', 'cy@example.com', { verified: 0, roles: '[]' }),
      ],
    },
    {
      id: 'staff0000000000',
      name: 'staff',
      type: 'auth',
      fields: [{ name: 'desk', type: 'number', onlyInt: true }],
      rows: [person('ann2', 'ann@example.com'), person('cy2', 'cy@example.com')].map(({ name: _name, ...row }) => ({
        ...row,
        desk: 7,
      })),
    },
    ...RULES.map(([rule], index) => ({
      id: `select${index}`,
      name: `s${index}`,
      fields: [...DOC_FIELDS],
      rules: {
        list: rule.replaceAll('teams_via_of', `teams_via_s${index}`),
        view: rule.replaceAll('teams_via_of', `teams_via_s${index}`),
      },
      rows: docRows,
    })),
    ...READ_RULES.map(([rule], index) => {
      const fields = DOC_FIELDS.filter(({ name }) => rule.includes(name))
      const rows = docRows.map((row) => ({
        id: row.id,
        ...Object.fromEntries(Object.entries(row).filter(([key]) => fields.some(({ name }) => name === key))),
      }))
      return { id: `read${index}`, name: `r${index}`, fields, rules: { list: rule, view: rule }, rows }
    }),
    {
      id: 'sent00000000000',
      name: 'sent',
      idPattern: 'S[0-9]{6}',
      fields: [{ name: 'by', type: 'relation', collectionId: USERS.id, maxSelect: 1 }],
      rules: { list: '', view: '', create: '@request.body.by.name = "bo"', update: '@request.body.by.name = "bo"' },
      rows: [{ id: 'old', by: 'ann' }],
    },
    ...RULES.map(([rule], index) => ({
      id: `write${index}`,
      name: `w${index}`,
      fields: [...DOC_FIELDS],
      rules: {
        list: '',
        view: '',
        update: rule.replaceAll('teams_via_of', `teams_via_w${index}`),
        delete: rule.replaceAll('teams_via_of', `teams_via_w${index}`),
      },
      rows: docRows,
    })),
    {
      id: 'teams0000000000',
      name: 'teams',
      fields: [
        { name: 'member', type: 'relation', collectionId: USERS.id, maxSelect: 1 },
        { name: 'doc', type: 'text' },
        ...RULES.flatMap((_rule, index) =>
          [
            ['s', 'select'],
            ['w', 'write'],
          ].map(([name, id]) => ({
            name: `${name}${index}`,
            type: 'relation',
            collectionId: `${id}${index}`,
            maxSelect: 1,
          })),
        ),
      ],
      rows: [
        ['ann', 'bos'],
        ['bo', 'none'],
      ].map(([member = '', doc = ''], at) => ({
        id: `t${at}`,
        member,
        doc,
        ...Object.fromEntries(
          RULES.flatMap((_rule, index) => [
            [`s${index}`, doc],
            [`w${index}`, doc],
          ]),
        ),
      })),
    },
    {
      id: 'select_words',
      name: 'select',
      fields: [
        { name: 'order', type: 'text', required: true },
        { name: 'next', type: 'relation', collectionId: 'select_words', maxSelect: 1 },
        { name: 'made', type: 'autodate', onCreate: true },
        { name: 'data', type: 'json' },
        { name: 'secret', type: 'text', hidden: true },
        { name: 'pic', type: 'file', maxSelect: 1, protected: true },
      ],
      rules: {
        list: 'order != "hidden"',
        view: 'order != "hidden"',
        create: '@request.body.order = @request.auth.id',
        update: '@request.auth.id != "" && @request.body.order:changed = false',
        delete: '@request.headers.x_key = "1"',
      },
      indexes: ['CREATE UNIQUE INDEX `idx_order` ON `select` (`order`)'],
      rows: [
        {
          id: 'a',
          order: 'one',
          next: 'b',
          made: '2021-02-03 04:05:06.789Z',
          data: '{"a":[1,"ü\\u0000"]}',
          secret: 'x',
          pic: 'cat.txt',
        },
        { id: 'b', order: 'hidden', next: 'a', made: '2021-02-03 04:05:06.789Z', data: null, secret: 'y', pic: '' },
        { id: 'c', order: '', next: 'gone', made: '', data: '1', secret: '', pic: '' },
      ],
    },
  ],
  {
    superusers: ['root@example.com'],
    external: [{ id: 'e', collectionRef: USERS.id, recordRef: 'bo', provider: 'github', providerId: '42' }],
    files: {
      'select_words/a/cat.txt': 'meow',
      'select_words/a/thumbs_cat.txt/100x100_cat.txt': 'no',
      'select_words/b/dog.txt': 'wuff',
      'select_words/b/thumbs_of.attrs': 'mine',
    },
    walRows: `insert into "select" (id, "order") values ('d', 'in the WAL')`,
  },
)

test('a dry run prints the plan and changes nothing, here or there', async () => {
  const before = imprint(folder)
  const { code, out, err } = await adopt(folder, '--json')
  assert.deepEqual([code, err], [0, ''])
  const plan = JSON.parse(out)
  assert.deepEqual(Object.keys(plan), ['source', 'apply', 'tables', 'policies', 'users', 'files', 'notes'])
  assert.equal(plan.apply, false)
  assert.deepEqual(plan.users, { total: 4, by_credential: { bcrypt: 2, none: 2 } })
  assert.deepEqual(plan.files, { count: 3, bytes: 12 })
  assert.deepEqual(plan.tables.find(({ name }: { name: string }) => name === 'select').rows, 4)
  assert.ok(
    plan.notes.some(
      (note: { level: string; what: string }) => note.level === 'closed' && note.what === 'select.delete',
    ),
  )
  assert.ok(plan.notes.some((note: { what: string }) => note.what === 'superuser root@example.com'))
  assert.deepEqual(
    plan.notes.filter(
      ({ level, what }: { level: string; what: string }) => level === 'closed' && /^[rsw]\d/.test(what),
    ),
    [],
  )
  assert.ok(!/\$2[aby]\$|secret-/.test(out), 'nothing secret is printed')
  assert.equal(imprint(folder), before)
  assert.deepEqual(await read(`select to_regclass('public.teams')::text as t`), [{ t: null }])
})

test('what a database cannot know stays closed, and is listed', async () => {
  const closed = made([
    USERS,
    ...CLOSED_RULES.map((rule, index) => ({
      id: `closed${index}`,
      name: `c${index}`,
      fields: [...DOC_FIELDS],
      rules: { list: rule, view: rule, update: rule },
    })),
  ])
  const { notes, policies } = await adopting(adoptPocketbase, api.databaseUrl, [closed])
  const listed = notes.filter(({ level, what }) => level === 'closed' && what.startsWith('c'))
  assert.deepEqual(
    listed.map(({ what }) => what).sort(),
    CLOSED_RULES.flatMap((_rule, index) => [`c${index}.select`, `c${index}.update`]).sort(),
  )
  assert.deepEqual(policies, [])
})

test('broken input is a sentence', async () => {
  const empty = mkdtempSync(join(tmpdir(), 'pb-empty-'))
  folders.push(empty)
  assert.match((await adopt(empty)).err, /is no PocketBase data folder: there is no data\.db in it\n$/)
  writeFileSync(join(empty, 'data.db'), 'certainly not SQLite'.repeat(100))
  assert.match((await adopt(empty)).err, /data\.db cannot be read: .*\n$/)
  const cut = made([{ ...USERS, rows: [person('x', 'x@example.com')] }])
  truncateSync(join(cut, 'data.db'), 5000)
  rmSync(join(cut, 'data.db-wal'), { force: true })
  const short = await adopt(cut)
  assert.deepEqual([short.code, short.out], [1, ''])
  const linked = mkdtempSync(join(tmpdir(), 'pb-link-'))
  folders.push(linked)
  symlinkSync(join(folder, 'data.db'), join(linked, 'data.db'))
  assert.match((await adopt(linked)).err, /data\.db is a link/)
})

test('--apply brings every row, user and file; a second run changes nothing', async () => {
  const before = imprint(folder)
  const { code, out, err } = await adopt(folder, '--apply', '--json')
  assert.deepEqual([code, err], [0, ''])
  const { done, notes } = JSON.parse(out)
  assert.deepEqual(done, {
    tables: RULES.length * 2 + READ_RULES.length + 5,
    users: 4,
    rows: RULES.length * 8 + READ_RULES.length * 4 + 12,
    files: 3,
  })
  assert.equal(imprint(folder), before)
  assert.ok(notes.some(({ why }: { why: string }) => why.startsWith('holds for new rows alone')))
  const [row] = await read(
    `select id, "order", next, svc_pocketbase.date_text(made) as made, data::text, secret, pic from public."select" where id = 'a'`,
  )
  assert.deepEqual(row, {
    id: 'a',
    order: 'one',
    next: 'b',
    made: '2021-02-03 04:05:06.789Z',
    data: '{"a": [1, "ü"]}',
    secret: 'x',
    pic: 'cat.txt',
  })
  assert.deepEqual(
    (await read(`select id from public."select" order by id`)).map(({ id }) => id),
    ['a', 'b', 'c', 'd'],
  )
  await read(
    `delete from public."select" where id = 'd'; update public."select" set secret = 'mine' where id = 'a'; delete from svc.users where email = 'cy@example.com'`,
  )
  const again = await adopt(folder, '--apply', '--json')
  assert.deepEqual(JSON.parse(again.out).done, { tables: 0, users: 0, rows: 0, files: 0 })
  assert.deepEqual(await read(`select string_agg(id || secret, ',' order by id) as all from public."select"`), [
    { all: 'amine,by,c' },
  ])
  assert.deepEqual(await read(`select count(*)::text as n from svc.users where email = 'cy@example.com'`), [{ n: '0' }])
  const [role] = await read(
    `select concat_ws(' ', rolsuper, rolbypassrls, rolcreaterole, rolcanlogin) as may from pg_roles r join pg_class c on c.relowner = r.oid where c.oid = 'public.teams'::regclass`,
  )
  assert.deepEqual(role, { may: 'f f f f' })
})

const signIn = async (email: string, password: string) =>
  api.call('POST /api/auth/login', { json: { email, password } })
const tokenOf = async (who: Who): Promise<string | undefined> =>
  who && (await signIn(`${who.id}@example.com`, `password of ${who.id}`)).body.token

test('old passwords work, wrong ones do not; one address in two collections is one account without a password', async () => {
  assert.equal((await signIn('bo@example.com', 'password of bo')).status, 200)
  assert.equal((await signIn('bo@example.com', 'password of ann')).status, 401)
  assert.deepEqual(
    await read(
      `select (password_hash like '$argon2id$%' and email_verified_at is not null)::text as renewed from svc.users where email = 'bo@example.com'`,
    ),
    [{ renewed: 'true' }],
  )
  assert.deepEqual(
    await read(
      `select u.password_hash, u.email, s.id, s.desk::text from svc.users u join public.staff s on s.account_id = u.id join public.users p on p.account_id = u.id`,
    ),
    [{ password_hash: null, email: 'ann@example.com', id: 'ann2', desk: '7' }],
  )
  assert.deepEqual(
    await read(`select i.provider, i.subject, u.email from svc.identities i join svc.users u on u.id = i.user_id`),
    [{ provider: 'github', subject: '42', email: 'bo@example.com' }],
  )
})

test('each rule answers as PocketBase does, for every user, row and action', async () => {
  await read(
    `update svc.users u set password_hash = '${bcrypt('password of ann')}' from public.users p where p.account_id = u.id and p.id = 'ann'`,
  )
  for (const who of PEOPLE) {
    const [account] = who
      ? await read(`select account_id::text as id from public.users where id = '${who.id}'`)
      : [undefined]
    const as = `set local role ${who ? 'svc_authenticated' : 'svc_anon'}; select set_config('svc.user_id', '${account?.id ?? ''}', true), set_config('svc.user_email', '${who ? `${who.id}@example.com` : ''}', true);`
    const act = async (statement: string): Promise<string[]> => {
      const answers = (await tx(`${as} ${statement}`)).map(({ id }) => id)
      return answers.sort()
    }
    const rowsOf = (holds: (row: Row, who: Who) => boolean): string[] =>
      ROWS.filter((row) => holds(row, who))
        .map(({ id }) => id)
        .sort()
    for (const [index, [rule, holds]] of READ_RULES.entries())
      assert.deepEqual(
        await act(`select id from public.r${index}`),
        rowsOf(holds),
        `${rule} for ${who?.id ?? 'a visitor'}`,
      )
    for (const [index, [rule, holds]] of RULES.entries()) {
      const wanted = rowsOf(holds)
      const what = `${rule.slice(0, 80)} for ${who?.id ?? 'a visitor'}`
      assert.deepEqual(await act(`select id from public.s${index}`), wanted, `select ${what}`)
      assert.deepEqual(await act(`update public.w${index} set title = 'new' returning id`), wanted, `update ${what}`)
      assert.deepEqual(await act(`delete from public.w${index} returning id`), wanted, `delete ${what}`)
    }
  }
})

test('what is sent is judged, hidden fields stay hidden, and unsayable rules are closed', async () => {
  const ann = (await tokenOf(PEOPLE[1])) ?? ''
  const at = 'POST /api/collections/select'
  assert.equal((await api.call(at, { as: ann, json: { order: 'someone' } })).status, 403)
  const created = await api.call(at, { as: ann, json: { order: 'ann' } })
  assert.equal(created.status, 201, created.text)
  assert.match(created.body.id, /^[a-z0-9]{15}$/)
  assert.ok(!('secret' in created.body) && created.body.made)
  const send = (json: object) => api.call('POST /api/collections/sent', { as: ann, json })
  assert.match((await send({ by: 'bo' })).body.id, /^S\d{6}$/)
  assert.equal((await send({ by: 'ann' })).status, 403)
  const old = 'PATCH /api/collections/sent/old'
  assert.equal((await api.call(old, { as: ann, json: { by: 'cy' } })).status, 403)
  assert.equal((await api.call(old, { as: ann, json: { by: 'bo' } })).status, 200)
  const row = `/api/collections/select/${created.body.id}` as const
  assert.equal((await api.call(`PATCH ${row}`, { as: ann, json: { data: { a: 1 } } })).status, 200)
  assert.equal((await api.call(`PATCH ${row}`, { as: ann, json: { order: 'other' } })).status, 403)
  assert.ok([403, 404].includes((await api.call(`DELETE ${row}`, { as: ann })).status))
  assert.equal((await api.call('GET /api/storage/select/a/cat.txt', { as: ann })).text, 'meow')
  assert.equal((await api.call('GET /api/storage/select/b/dog.txt', { as: ann })).status, 404)
  assert.equal(
    (await api.call('GET /api/storage/select/a/thumbs_cat.txt/100x100_cat.txt', { as: 'admin' })).status,
    404,
  )
})

test('who registers later has a profile, and changes no other', async () => {
  const { token } = await api.signUp('new@example.com')
  const [profile] = await read(
    `select p.id from public.users p join svc.users u on u.id = p.account_id where u.email = 'new@example.com'`,
  )
  assert.match(profile.id, /^[a-z0-9]{15}$/)
  assert.equal(
    (await api.call(`PATCH /api/collections/users/${profile.id}`, { as: token, json: { name: 'New' } })).status,
    200,
  )
  assert.ok(
    [403, 404].includes(
      (await api.call('PATCH /api/collections/users/ann', { as: token, json: { name: 'New' } })).status,
    ),
  )
})

test('an existing table with other columns is refused, and nothing is changed', async () => {
  const used = await startServer()
  await used.sql('create table public.taken (id text primary key, other text)')
  const other = made([
    { id: 'fresh0000000000', name: 'fresh', fields: [] },
    { id: 'taken0000000000', name: 'taken', fields: [{ name: 'title', type: 'text' }] },
  ])
  assert.deepEqual(await adoptInto(used, other, '--apply'), {
    code: 1,
    out: '',
    err: 'there is a table public.taken already, with other columns\n',
  })
  assert.deepEqual(await used.sql(`select to_regclass('public.fresh')::text as t`), [{ t: null }])
})

test('a folder of 0.22 arrives too, and --out writes schema and policies alone', async () => {
  const old = made(
    [
      {
        id: 'people000000000',
        name: 'people',
        type: 'auth',
        fields: [{ name: 'nick', type: 'text', options: { max: 20 } }],
        options: { allowEmailAuth: true },
        rules: { list: '', view: '' },
        indexes: ['CREATE UNIQUE INDEX `people_username_idx` ON `people` (`username` COLLATE NOCASE)'],
        rows: [
          {
            id: 'p1',
            email: 'old@example.com',
            verified: 1,
            passwordHash: bcrypt('an old password'),
            tokenKey: 'k',
            username: 'u1',
            nick: 'N',
            created: '2020-01-01 00:00:00.000Z',
            updated: '2020-01-01 00:00:00.000Z',
          },
        ],
      },
      {
        id: 'notes0000000000',
        name: 'notes',
        fields: [
          {
            name: 'by',
            type: 'relation',
            options: { collectionId: 'people000000000', maxSelect: 1, cascadeDelete: true },
          },
          { name: 'many', type: 'relation', options: { collectionId: 'people000000000', maxSelect: null } },
        ],
        rules: { list: 'by = @request.auth.id', view: 'by = @request.auth.id' },
        rows: [
          {
            id: 'n1',
            by: 'p1',
            many: '["p1"]',
            created: '2020-01-01 00:00:00.000Z',
            updated: '2020-01-01 00:00:00.000Z',
          },
        ],
      },
    ],
    { layout: '0.22', superusers: ['root@example.com'] },
  )
  const out = await adopt(old, '--out', 'sql')
  assert.equal(out.code, 0, out.err)
  const written = readdirSync(join(home, 'sql')).sort()
  assert.match(written.join(), /^\d{14}_pocketbase_schema\.sql,\d{14}_pocketbase_policies\.sql$/)
  const text = written.map((name) => readFileSync(join(home, 'sql', name), 'utf8')).join('')
  assert.ok(text.includes('create table public."notes"') && !/old@example|\$2/.test(text))
  const second = await startServer()
  const refused = await adopt(old, '--apply')
  assert.match(refused.err, /^another PocketBase was adopted into this database/)
  const applied = await adoptInto(second, old, '--apply', '--json', '--relation-views')
  const views = withoutInvokerViews ? 0 : 1
  assert.deepEqual(
    [applied.code, JSON.parse(applied.out || '{}').done],
    [0, { tables: 2, views, users: 1, rows: 2, files: 0 }],
    applied.err,
  )
  const [index] = await second.sql(`select indexdef from pg_indexes where indexname like '%people_username_idx'`)
  assert.match(index.indexdef, /UNIQUE .*lower/)
  const { body } = await second.call('POST /api/auth/login', {
    json: { email: 'old@example.com', password: 'an old password' },
  })
  assert.deepEqual(
    (await second.call('GET /api/collections/notes', { as: body.token })).body.items.map(
      ({ id, many }: { id: string; many: string[] }) => [id, many],
    ),
    [['n1', ['p1']]],
  )
  if (views === 1) {
    const { body: joined } = await second.call('GET /api/collections/notes_many', { as: body.token })
    assert.deepEqual(joined.items, [{ record_id: 'n1', related_id: 'p1', place: 1 }])
    assert.deepEqual((await second.call('GET /api/collections/notes_many')).body.items, [])
  }
})

/** Of a transaction that is undone. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into rows freely
async function tx(text: string): Promise<any[]> {
  await client.query('begin')
  try {
    const answers = (await client.query(text)) as unknown as { rows: { id: string }[] }[]
    return answers.at(-1)?.rows ?? []
  } finally {
    await client.query('rollback')
  }
}
