import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { svc as program } from '../../../test/kit/programs.ts'

const api = await startServer()
const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
await api.sql(`
  create table notes (id int primary key, owner uuid, title text);
  create table pages (site text, path text, primary key (site, path));
  create table quiet (id int);
  alter table notes enable row level security;
  create policy own on notes using (owner::text = current_setting('svc.user_id', true));
  revoke delete on pages from svc_anon;
  insert into pages values ('a', '/'), ('a', '/x')`)
await api.sql(`insert into notes values (1, $1, 'x'), (2, $2, 'y'), (3, $1, 'z')`, [ana.user.id, bo.user.id])

const folder = mkdtempSync(join(tmpdir(), 'svc-rls-'))
const svc = (...args: string[]) =>
  new Promise<{ code: number; out: string; err: string }>((resolve) => {
    const env = { ...process.env, SVC_DATABASE_URL: api.databaseUrl, SVC_DATA_DIR: join(folder, 'data') }
    execFile(process.execPath, [...program, ...args], { env }, (error, out, err) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, out, err }),
    )
  })

test('who may do what is a file that changes when a policy does, and only then', async () => {
  const file = join(folder, 'access.txt')
  assert.deepEqual(await svc('rls', 'snapshot', file), { code: 0, out: `wrote ${file}\n`, err: '' })
  const lines = readFileSync(file, 'utf8').split('\n')
  for (const line of [
    '# users: ana@x.test, bo@x.test',
    'public.notes | visitor | select | 0 of 3',
    'public.notes | ana@x.test | select | 2 of 3: 1 3',
    'public.notes | ana@x.test | update | 2 of 3: 1 3',
    'public.notes | bo@x.test | insert | 1 of 3: 2',
    'public.pages | visitor | select | 2 of 2: a,/ a,/x',
    'public.pages | visitor | delete | lacks DELETE on public.pages',
    'public.quiet | visitor | select | 0 of 0',
  ]) {
    assert.ok(lines.includes(line), `${line}\nis not in\n${lines.join('\n')}`)
  }
  assert.deepEqual(await svc('rls', 'diff', file), { code: 0, out: '', err: '' })

  await api.sql('create policy readable on notes for select using (id = 2)')
  const { code, out } = await svc('rls', 'diff', file)
  assert.equal(code, 1)
  assert.deepEqual(out.trimEnd().split('\n'), [
    '- public.notes | visitor | select | 0 of 3',
    '- public.notes | ana@x.test | select | 2 of 3: 1 3',
    '+ public.notes | visitor | select | 1 of 3: 2',
    '+ public.notes | ana@x.test | select | 3 of 3: 1 2 3',
  ])
  const unknown = await svc('rls', 'snapshot', file, '--users', 'nobody@x.test')
  assert.deepEqual([unknown.code, unknown.err], [1, 'there is no user nobody@x.test\n'])
})

test('with --url it is the server there that says who may do what', async () => {
  const [here, there] = [join(folder, 'here.txt'), join(folder, 'there.txt')]
  const other = await startServer()
  await other.sql('create table elsewhere (id int primary key); insert into elsewhere values (5)')
  await other.signUp('cleo@x.test')
  const away = ['--url', other.url, '--admin-token', await other.adminToken()]
  assert.equal((await svc('rls', 'snapshot', here)).code, 0)
  assert.deepEqual(await svc('rls', 'snapshot', there, ...away), { code: 0, out: `wrote ${there}\n`, err: '' })
  const lines = readFileSync(there, 'utf8').split('\n')
  assert.ok(lines.includes('public.elsewhere | cleo@x.test | select | 1 of 1: 5'), lines.join('\n'))
  assert.ok(!lines.some((line) => line.startsWith('public.notes')))
  assert.deepEqual(await svc('rls', 'diff', there, ...away), { code: 0, out: '', err: '' })
  const unknown = await svc('rls', 'diff', here, ...away)
  assert.deepEqual([unknown.code, unknown.err], [1, 'there is no user ana@x.test\n'])
})

test('what cannot be compared is not taken for no change', async () => {
  const missing = await svc('rls', 'diff', join(folder, 'missing.txt'))
  assert.deepEqual([missing.code, missing.out], [1, ''])
  assert.match(missing.err, /missing\.txt/)
  for (const args of [['rls'], ['rls', 'show'], ['rls', 'diff', 'a', 'b']]) {
    assert.equal((await svc(...args)).code, 2, args.join(' '))
  }
})
