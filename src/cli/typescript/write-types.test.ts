import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { svc } from '../../../test/kit/programs.ts'

const api = await startServer()
const folder = mkdtempSync(join(tmpdir(), 'svc-types-'))
after(() => rmSync(folder, { recursive: true, force: true }))

await api.call('POST /api/admin/sql', {
  as: 'admin',
  json: {
    query: `
      create type mood as enum ('calm', 'wild');
      create table posts (
        id int generated always as identity primary key, title text not null, mood mood not null default 'calm',
        moods mood[], views bigint, data jsonb, "odd name" text, at timestamptz not null default now());
      comment on column posts.title is 'ends a comment: */ or not';
      create table "odd/table {x}" (id uuid primary key);
      comment on table posts is 'what people write';
      create table tasks (
        post_id int not null references posts, author_id int references posts, n bigint, slug text unique, price numeric(6, 2),
        primary key (post_id, n), unique (slug, price));
      create type address as (street text, number int);
      create domain small as int check (value < 100);
      create domain smaller as small;
      create domain feeling as mood;
      create domain row_of as int[];
      create table lists (
        id int primary key, addresses address[], smalls smaller[], feelings feeling[], rows row_of[], flags bool[], sizes numeric[],
        texts varchar(5)[], total numeric, constructor text, "toString" int not null default 1);
      create view titles as select title from posts;
      create function add(a int, b int default 1) returns int language sql as 'select a + b';
      comment on function add is 'adds two numbers';
      create function busiest() returns setof posts language sql as 'select * from posts';
      create function moods_of(m mood, n bigint) returns mood language sql as 'select m';
      create function pairs() returns table (a int, b numeric, m mood) language sql as $$ select 1, 2.5, 'calm'::mood $$;
      create function numbers() returns setof bigint language sql as 'select 1::bigint';
      create function nothing(moods mood[]) returns void language sql as ''`,
  },
})

/** Written so that no check is switched off in this file. */
const REFUSED = '// @ts-expect'.concat('-error')

const use = `
import type { Database } from './database.ts'
type Posts = Database['tables']['posts']
const row: Posts['Row'] = { id: 1, title: 't', mood: 'wild', moods: ['calm', null], views: null, data: { a: 1 }, 'odd name': null, at: '' }
const made: Posts['Insert'] = { title: 't' }
const changed: Posts['Update'] = {}
const mood: Database['enums']['mood'] = 'calm'
const args: Database['functions']['add']['Args'] = { a: 1 }
const sum: Database['functions']['add']['Returns'] = 2
const rows: Database['functions']['busiest']['Returns'] = [row]
const odd: Database['tables']['odd/table {x}']['Row'] = { id: '' }
type Lists = Database['tables']['lists']
const lists: Lists['Row'] = {
  id: 1, addresses: [{ street: 's', number: 1 }, null], smalls: [1, null], feelings: ['calm'], rows: [[1, 2]], flags: [true, null],
  sizes: [1n, '1.5', 2], texts: ['a'], total: 12345678901234567890n, constructor: null, toString: 2 }
const newLists: Lists['Insert'] = { id: 1, addresses: [{ street: 's' }], feelings: ['wild', null], total: 12345678901234567890n }
const otherLists: Lists['Update'] = { constructor: 'a' }
${REFUSED}: no such mood
const wrongFeelings: Lists['Update'] = { feelings: ['sad'] }
${REFUSED}: objects
const wrongAddresses: Lists['Update'] = { addresses: ['(s,1)'] }
${REFUSED}: numbers
const wrongSmalls: Lists['Update'] = { smalls: ['1'] }
${REFUSED}: a text
const wrongConstructor: Lists['Update'] = { constructor: 1 }
const view: Database['tables']['titles']['Row'] = { title: null }
type Tasks = Database['tables']['tasks']
const task: Tasks['Row'] = { post_id: 1, author_id: null, n: 9007199254740993n, slug: null, price: '0.1' }
const newTask: Tasks['Insert'] = { post_id: 1, n: '9007199254740993', price: 0.5 }
const taskKey: Tasks['Key'] = [1, 2n]
const postKey: Posts['Key'] = 1
const unique: Tasks['Unique'][] = ['post_id,n', 'slug', 'slug,price']
const list: Tasks['Relations']['post'] = { table: 'posts', many: false }
const author: Tasks['Relations']['author'] = { table: 'posts', many: false }
const back: Posts['Relations']['tasks_via_post_id'] = { table: 'tasks', many: true }
const expanded: Database['tables'][Tasks['Relations']['post']['table']]['Row'] = row
const feeling: Database['functions']['moods_of'] = { Args: { m: 'calm', n: 1n }, Returns: 'wild' }
const pairs: Database['functions']['pairs']['Returns'] = [{ a: 1, b: '2.5', m: 'calm' }]
const numbers: Database['functions']['numbers']['Returns'] = [{ numbers: 1n }]
const nothing: Database['functions']['nothing']['Returns'] = undefined
const noArgs: Database['functions']['busiest']['Args'] = {}
const never = (value: never) => value
const noKey = (value: Database['tables']['titles']['Key']) => never(value)
const noUnique = (value: Database['tables']['titles']['Unique']) => never(value)
const noRelation = (value: keyof Database['tables']['titles']['Relations']) => never(value)
${REFUSED}: a title is required
const untitled: Posts['Insert'] = {}
${REFUSED}: no such mood
const wrong: Posts['Update'] = { mood: 'sad' }
${REFUSED}: no such mood
const wrongMoods: Posts['Update'] = { moods: ['sad'] }
${REFUSED}: no such relation
type NoRelation = Tasks['Relations']['nothing']
${REFUSED}: a key has two columns
const half: Tasks['Key'] = [1]
${REFUSED}: no such mood
const mistaken: Database['functions']['moods_of']['Args'] = { m: 'sad', n: 1 }
${REFUSED}: no unique key of these columns
const notUnique: Tasks['Unique'] = 'price'
${REFUSED}: PostgreSQL makes the id
const given: Posts['Insert'] = { title: 't', id: 1 }
export const more = [task, newTask, taskKey, postKey, unique, list, author, back, expanded, feeling, pairs, numbers, nothing, noArgs, noKey, noUnique, noRelation, half, mistaken, wrongMoods, notUnique, lists, newLists, otherLists, wrongFeelings, wrongAddresses, wrongSmalls, wrongConstructor] as unknown[] & { no?: NoRelation }
export const all = [row, made, changed, mood, args, sum, rows, odd, view, untitled, wrong, given]
`

test('svc types writes a file that TypeScript believes', async () => {
  const file = join(folder, 'database.ts')
  const token = await api.adminToken()
  await promisify(execFile)(
    process.execPath,
    [...svc, 'types', '--out', file, '--url', api.url, '--admin-token', token],
    { cwd: folder },
  )
  writeFileSync(join(folder, 'use.ts'), use)
  const tsc = new URL('../../../node_modules/.bin/tsc', import.meta.url).pathname
  const flags = [
    '--noEmit',
    '--strict',
    '--target',
    'esnext',
    '--allowImportingTsExtensions',
    '--types',
    '',
    '--ignoreConfig',
  ]
  const { status, stdout } = spawnSync(tsc, [...flags, join(folder, 'use.ts')], { encoding: 'utf8', cwd: folder })
  const written = readFileSync(file, 'utf8')
  assert.equal(status, 0, `${stdout}\n${written}`)
  for (const comment of ['what people write', 'ends a comment: *\\/ or not', 'adds two numbers']) {
    assert.ok(written.includes(`/** ${comment} */`), comment)
  }
})

test('svc types --watch writes the file again when the schema changes', async () => {
  const file = join(folder, 'watched.ts')
  const flags = ['types', '--watch', '--out', file, '--url', api.url, '--admin-token', await api.adminToken()]
  const watching = spawn(process.execPath, [...svc, ...flags], { cwd: folder, stdio: 'ignore' })
  after(() => watching.kill())
  await eventually(() => assert.ok(readFileSync(file, 'utf8').includes('posts')))
  await api.call('POST /api/admin/sql', {
    as: 'admin',
    json: { query: 'create table made_later (id int primary key)' },
  })
  await eventually(() => assert.ok(readFileSync(file, 'utf8').includes('made_later')))
  watching.kill()
})
