import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { expiredOfIdentity } from '../../app/cleanups.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { sweepExpired } from './cleanups.ts'

const api = await startServer()

const tables = {
  mail_tokens: `insert into svc.mail_tokens select 'h' || i, 'magic_link', i || '@x.test', null, now() - interval '1 hour' from many`,
  oauth_states: `insert into svc.oauth_states select 'h' || i, 'p', '', '', '', '', now() - interval '1 hour' from many`,
  pending_logins: `insert into svc.pending_logins
    select gen_random_uuid(), (select id from svc.users limit 1), '{}', now(), now() - interval '1 hour' from many`,
  sms_codes: `insert into svc.sms_codes select '+49' || i, '', 0, now() - interval '1 hour' from many`,
  login_failures: `insert into svc.login_failures select i || '@x.test', '1.1.1.1', 1, now() - interval '2 days' from many`,
  sessions: `insert into svc.sessions select gen_random_uuid(), (select id from svc.users limit 1), 'aal1', '{}', '', '',
    now(), now(), now() - interval '1 hour' from many`,
} as const

test('a server that starts removes what is over, however much, and nothing else', async () => {
  const kept = await api.signUp('kept@x.test')
  const failure = { email: 'kept@x.test', password: 'wrong password' }
  assert.equal((await api.call('POST /api/auth/login', { json: failure })).status, 401)
  for (const statement of Object.values(tables)) {
    await api.sql(`with many as (select generate_series(1, 2500) as i) ${statement}`)
  }
  const [other] = await Promise.all([startServer({ on: api }), startServer({ on: api })])
  // The first sweep is a while after the start.
  const areGone = async () => {
    for (const table of Object.keys(tables)) {
      const [{ left }] = await api.sql(`select count(*)::int as left from svc.${table}`)
      assert.ok(left <= 2, `${left} rows in ${table}`)
    }
  }
  await eventually(areGone)
  assert.equal((await other.call('GET /api/auth/me', { as: kept.token })).status, 200)
  assert.equal((await api.sql('select from svc.login_failures')).length, 2)
  assert.equal((await api.sql('select from svc.mail_tokens')).length, 1)
})

test('a server that goes on removes what is over every ten minutes, and sooner while there is more', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const asked: string[] = []
  let removed = 0
  const run = async (_who: unknown, statement: Sql) => {
    asked.push(/delete from svc\.(\w+)/.exec(statement.render().text)?.[1] ?? '')
    return removed
  }
  const after = async (ms: number) => {
    asked.length = 0
    t.mock.timers.tick(ms)
    await new Promise((resolve) => setImmediate(resolve))
    return asked.toSorted()
  }
  const sweeping = sweepExpired({ db: { run } as unknown as Db, observe: () => {}, expired: expiredOfIdentity })
  const all = await after(10_000)
  for (const table of Object.keys(tables)) assert.ok(all.includes(table), `${table} is not swept`)
  for (let round = 0; round < 3; round++) {
    assert.deepEqual(await after(10 * 60_000 - 1), [])
    assert.deepEqual(await after(1), all)
  }
  removed = 1000
  await after(10 * 60_000)
  removed = 0
  assert.deepEqual(await after(100), all, 'a full slice is followed by the next')
  assert.deepEqual(await after(10 * 60_000 - 1), [])
  await sweeping.stop()
})

test('every table whose rows expire has an index that finds them', async () => {
  const without = await api.sql(
    `
    select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'expires_at'
    where c.relnamespace = 'svc'::regnamespace and c.relkind = 'r'
      and c.relname = any ($1) and not exists (
        select from pg_index i where i.indrelid = c.oid and i.indkey[0] = a.attnum)`,
    [['mail_tokens', 'oauth_states', 'pending_logins', 'sms_codes', 'sessions', 'refresh_tokens', 'mfa_challenges']],
  )
  assert.deepEqual(without, [])
})
