import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dangersOf, isWriting } from '../src/pages/sql/guard.ts'

const dangers = (query: string) => dangersOf(query).map(({ kind, name, statement }) => [kind, name, statement])

test('what is written, dropped and emptied is known by its own statement, whatever stands in texts and comments', () => {
  assert.deepEqual(dangers(`select 'delete from a; drop table b' -- truncate c\n`), [])
  assert.deepEqual(dangers(`update a set x = 'where; ever'; select 1;\n delete from "odd; name" where id = 'x;y'`), [
    ['all rows', 'a', `update a set x = 'where; ever'`],
    ['some rows', '"odd; name"', `delete from "odd; name" where id = 'x;y'`],
  ])
  assert.deepEqual(dangers('with old as (select 1) delete from only public.notes'), [
    ['all rows', 'public.notes', 'with old as (select 1) delete from only public.notes'],
  ])
  assert.deepEqual(dangers('TRUNCATE TABLE "Notes"; drop table if exists s.t cascade; drop index concurrently i'), [
    ['drop', 'Notes', 'TRUNCATE TABLE "Notes"'],
    ['drop', 's.t', 'drop table if exists s.t cascade'],
    ['drop', 'i', 'drop index concurrently i'],
  ])
  assert.deepEqual(dangers('do $$ begin delete from a; end $$; /* drop table b; */ insert into c values (1)'), [])
  assert.deepEqual([isWriting(`select 'drop'`), isWriting('drop table a')], [false, true])
})
