import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'
import { openConnection } from '../../db/protocol/driver.ts'

const api = await startServer()
const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
await api.sql(`
  create table notes (id int primary key, owner uuid, title text, is_open boolean not null default false);
  alter table notes enable row level security;
  create policy own on notes to svc_authenticated using (owner = svc.uid());
  create table seen (id int);
  create function leave_a_mark() returns boolean language plpgsql as $$ begin insert into seen values (1); return true; end $$;
  create table keyless (id int)`)
await api.sql(`insert into notes values (1, $1, 'a', false), (2, $1, 'b', true), (3, $2, 'c', true)`, [
  ana.user.id,
  bo.user.id,
])
await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table reloaded ()' } })
const compare = (json: object, as = 'admin') => api.call('POST /api/admin/rls/compare', { as, json })
type Effect = { user: string | null; operation: string; gains: string[]; loses: string[]; error?: string }
const effectsOf = async (json: object): Promise<(string | null | string[])[][]> => {
  const { status, body, text } = await compare({ table: 'notes', users: ['ana@x.test', bo.user.id], ...json })
  assert.equal(status, 200, text)
  assert.equal(body.rows, 3)
  return body.effects.map(({ user, operation, gains, loses }: Effect) => [user, operation, gains, loses])
}

test('who gains and who loses which rows by a policy that is not there yet', async () => {
  const open = { name: 'open_notes', command: 'select', using: 'is_open' }
  assert.deepEqual(await effectsOf({ policy: open }), [
    [null, 'select', ['2', '3'], []],
    ['ana@x.test', 'select', ['3'], []],
    [bo.user.id, 'select', ['2'], []],
  ])
  const members = { ...open, roles: ['svc_authenticated'] }
  assert.deepEqual((await effectsOf({ policy: members }))[0], [null, 'select', [], []])
  const strict = { name: 'strict', permissive: false, using: 'is_open' }
  assert.deepEqual(await effectsOf({ policy: strict, operations: ['select', 'delete'] }), [
    [null, 'select', [], []],
    [null, 'delete', [], []],
    ['ana@x.test', 'select', [], ['1']],
    ['ana@x.test', 'delete', [], ['1']],
    [bo.user.id, 'select', [], []],
    [bo.user.id, 'delete', [], []],
  ])
  assert.deepEqual((await effectsOf({ replaces: 'own' }))[1], ['ana@x.test', 'select', [], ['1', '2']])
  const changed = { name: 'own', using: `notes.owner = svc.uid() and title <> 'a'` }
  assert.deepEqual((await effectsOf({ replaces: 'own', policy: changed }))[1], ['ana@x.test', 'select', [], ['1']])
  assert.equal((await api.call('GET /api/admin/rls/notes', { as: 'admin' })).body.length, 1)
})

test('files are compared as rows of svc.objects', async () => {
  const json = { name: 'docs', access: 'policies' }
  assert.equal((await api.call('POST /api/admin/storage/buckets', { as: 'admin', json })).status, 201)
  assert.equal((await upload(api, '/api/storage/docs', { as: 'admin', name: 'a.txt' })).status, 201)
  const policy = { name: 'z', command: 'select', using: `bucket = 'docs'` }
  const { status, body, text } = await compare({ table: 'svc.objects', policy })
  assert.equal(status, 200, text)
  assert.deepEqual([body.rows, body.effects[0].gains.length], [1, 1], text)
})

test('no table is locked for it, and nothing in an expression writes', async () => {
  const holder = await openConnection({ url: api.databaseUrl })
  await holder.query('begin')
  await holder.query('lock table notes in row exclusive mode')
  assert.equal((await compare({ table: 'notes', policy: { name: 'p', using: 'true' } })).status, 200)
  await holder.query('rollback')
  await holder.end()
  const { body } = await compare({ table: 'notes', policy: { name: 'p', using: 'leave_a_mark()' } })
  assert.equal(body.effects[0].error, 'cannot execute INSERT in a read-only transaction')
  assert.deepEqual(await api.sql('select * from seen'), [])
})

test('what cannot be compared is refused', async () => {
  const policy = { name: 'p', using: 'true' }
  for (const [json, status, message] of [
    [{ table: 'nothing', policy }, 404, 'table not found'],
    [{ table: 'svc.users', policy }, 404, 'table not found'],
    [{ table: 'keyless', policy }, 400, 'table has no primary key'],
    [{ table: 'notes' }, 400, 'policy or replaces is required'],
    [{ table: 'notes', policy: { ...policy, command: 'x' } }, 400, /^command must be one of/],
    [{ table: 'notes', policy: { ...policy, using: 'true) or (true' } }, 400, /^invalid USING expression/],
    [{ table: 'notes', policy: { ...policy, using: 'true; drop table notes' } }, 400, /^invalid USING expression/],
    [{ table: 'notes', policy: { ...policy, withCheck: 'select' } }, 400, /^invalid WITH CHECK expression/],
    [{ table: 'notes', policy, operations: ['truncate'] }, 400, /^operation must be one of/],
    [{ table: 'notes', policy, users: ['nobody@x.test'] }, 404, 'there is no user nobody@x.test'],
    [{ table: 'notes', policy, users: Array(21).fill('ana@x.test') }, 400, 'too many users: max 20'],
  ] as const) {
    const answer = await compare(json)
    assert.equal(answer.status, status, answer.text)
    if (typeof message === 'string') assert.equal(answer.body.message, message)
    else assert.match(answer.body.message, message)
  }
  const json = { email: 'op@x.test', password: 'a password of their own', role: 'operator' }
  await api.call('POST /api/admin/admins', { as: 'admin', json })
  const { token } = (await api.call('POST /api/admin/auth', { json })).body
  assert.equal((await compare({ table: 'notes', policy }, token)).status, 403)
})
