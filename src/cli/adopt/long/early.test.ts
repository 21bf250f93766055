import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adopting } from '../../../../test/kit/adopt.ts'
import { eventually, startServer } from '../../../../test/kit/kit.ts'
import { supabaseDatabase } from '../../../../test/kit/supabase.ts'
import { adoptSupabase } from '../supabase/supabase.ts'

test('the layout of 2021, whose functions read claims one by one', async () => {
  const early = await supabaseDatabase({ isEarly: true })
  const bo = await early.addUser({
    email: 'bo@example.com',
    confirmed_at: '2021-01-01T00:00:00Z',
    password: 'old password of bo',
  })
  await early.client.query(
    `create function public.who() returns json language sql stable as $$ select json_build_object('uid', auth.uid(), 'role', auth.role()) $$`,
  )
  await adopting(adoptSupabase, early.url, [], { 'in-place': true, apply: true })
  const api = await startServer({ on: { databaseUrl: early.url } })
  const { body } = await api.call('POST /api/auth/login', {
    json: { email: 'bo@example.com', password: 'old password of bo' },
  })
  await eventually(async () =>
    assert.deepEqual((await api.call('POST /api/rpc/who', { as: body.token, json: {} })).body, {
      uid: bo,
      role: 'authenticated',
    }),
  )
  assert.deepEqual((await api.call('POST /api/rpc/who', { json: {} })).body, { uid: null, role: 'anon' })
  const late = await api.signUp('late@example.com')
  assert.equal(
    (await early.sql(`select count(*)::text as n from auth.users where id = $1`, [late.user.id]))[0]?.['n'],
    '1',
  )
  await api.stop()
})
