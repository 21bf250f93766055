import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { startServer } from '../../../test/kit/kit.ts'
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
      create view titles as select title from posts;
      create function add(a int, b int default 1) returns int language sql as 'select a + b';
      create function busiest() returns setof posts language sql as 'select * from posts';
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
const view: Database['tables']['titles']['Row'] = { title: null }
${REFUSED}: a title is required
const untitled: Posts['Insert'] = {}
${REFUSED}: no such mood
const wrong: Posts['Update'] = { mood: 'sad' }
${REFUSED}: PostgreSQL makes the id
const given: Posts['Insert'] = { title: 't', id: 1 }
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
  const flags = ['--noEmit', '--strict', '--allowImportingTsExtensions', '--types', '', '--ignoreConfig']
  const { status, stdout } = spawnSync(tsc, [...flags, join(folder, 'use.ts')], { encoding: 'utf8', cwd: folder })
  assert.equal(status, 0, `${stdout}\n${readFileSync(file, 'utf8')}`)
})
