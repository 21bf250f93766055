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

test('what stands behind a query, in EXPLAIN ANALYZE or behind a text with backslashes is known too', () => {
  assert.deepEqual(dangers('with gone as (delete from g1 returning id) select count(*) from gone where id > 1'), [
    ['all rows', 'g1', 'with gone as (delete from g1 returning id) select count(*) from gone where id > 1'],
  ])
  assert.deepEqual(dangers('with gone as (delete from g1 where id in (select 1)) select 1'), [
    ['some rows', 'g1', 'with gone as (delete from g1 where id in (select 1)) select 1'],
  ])
  assert.deepEqual(dangers(`select E'it\\'s'; delete from g1; select 'x'`), [['all rows', 'g1', 'delete from g1']])
  assert.deepEqual(dangers('explain (analyze) delete from g1'), [
    ['all rows', 'g1', 'explain (analyze) delete from g1'],
  ])
  assert.deepEqual(dangers('/* a /* nested */ comment */ update a set w = $q$where$q$;'), [
    ['all rows', 'a', 'update a set w = $q$where$q$'],
  ])
  for (const harmless of [
    'explain delete from g1',
    'select * from a for no key update of a',
    'select * from a for update nowait',
    'insert into a values (1) on conflict (id) do update set n = 2',
    'create table b (a int references a on update cascade on delete cascade)',
    'create trigger t before update of n on a execute function f()',
    'grant update on a to b',
    'alter table a alter column b drop not null, alter c drop default',
  ])
    assert.deepEqual(dangers(harmless), [], harmless)
})

test('everything that is dropped asks for its own name', () => {
  for (const [statement, name] of [
    ['alter table g1 drop column v', 'v'],
    ['alter table g1 add column w int, drop if exists "V" cascade', 'V'],
    ['alter table g1 drop constraint c', 'c'],
    ['drop policy own on notes', 'own'],
    ['drop role x', 'x'],
    ['drop extension if exists vector cascade', 'vector'],
    ['drop foreign data wrapper w', 'w'],
    ['drop trigger if exists t on a', 't'],
  ] as const)
    assert.deepEqual(dangers(statement), [['drop', name, statement]])
})
