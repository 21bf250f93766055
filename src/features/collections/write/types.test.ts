import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create type mood as enum ('sad', 'happy');
    create type pair as (a int, b text);
    create domain short as varchar(3);
    create domain positive as int not null check (value > 0);
    create table typed (
      id int generated always as identity primary key,
      bool boolean, small smallint, int4 int, int8 bigint, real4 real, real8 double precision, num numeric, fixed numeric(6, 2),
      js json, jsb jsonb, ints int[], texts text[], grid int[][], moods mood[],
      tz timestamptz, ts timestamp, d date, t time, iv interval,
      bin bytea, uid uuid, txt text, vc varchar(5), ch char(3), mood mood, ip inet, rng int4range, mr int4multirange,
      cash money, pair pair, pairs pair[], short short, pos positive default 1, bits bit(3), xm xml, pt point, lsn pg_lsn
    )`)
})

const write = async (column: string, valueText: string) => {
  const { status, body, text } = await api.call('POST /api/collections/typed', {
    body: `{"${column}":${valueText}}`,
    headers: { 'content-type': 'application/json' },
  })
  return { status, body, out: new RegExp(`"${column}":(.*?),"(?:${later(column)})":`, 's').exec(text)?.[1] ?? text }
}

const order =
  `id bool small int4 int8 real4 real8 num fixed js jsb ints texts grid moods tz ts d t iv bin uid txt vc ch mood
  ip rng mr cash pair pairs short pos bits xm pt lsn`.split(/\s+/)
const later = (column: string) => order[order.indexOf(column) + 1] ?? ''

test('every type goes in and comes out as the table of types says', async () => {
  const cases: [column: string, input: string, output?: string][] = [
    ['bool', 'true'],
    ['small', '-32768'],
    ['int4', '2147483647'],
    ['int4', '"42"', '42'],
    ['int8', '9223372036854775807'],
    ['int8', '"9007199254740993"', '9007199254740993'],
    ['real4', '1.5'],
    ['real8', '0.1'],
    ['real8', '1e300', '1e+300'],
    ['real8', '"NaN"'],
    ['real8', '"-Infinity"'],
    ['num', '12345678901234567890.123456789012345678901234567890'],
    ['num', '"NaN"'],
    ['fixed', '1234.567', '1234.57'],
    ['js', '{"a": [1,  2.50, null]}'],
    ['jsb', '{"a":[1,2.50,null]}', '{"a": [1, 2.50, null]}'],
    ['jsb', '12345678901234567890'],
    ['jsb', '"text"'],
    ['jsb', 'false'],
    ['jsb', 'null'],
    ['ints', '[1,null,3]'],
    ['ints', '"{4,5}"', '[4,5]'],
    ['ints', '[]'],
    ['texts', '["a,b","\\"q\\"","{}"]'],
    ['texts', '"{x,\\"y z\\"}"', '["x","y z"]'],
    ['grid', '[[1,2],[3,4]]'],
    ['moods', '["sad"]'],
    ['tz', '"2026-01-02T03:04:05.678+02:00"', '"2026-01-02T01:04:05.678+00:00"'],
    ['ts', '"2026-01-02T03:04:05.678"'],
    ['d', '"2026-01-02"'],
    ['t', '"03:04:05"'],
    ['iv', '"1 day 02:00:00"'],
    ['bin', '"\\\\x00ff"'],
    ['uid', '"7F0E1F2A-0000-4000-8000-000000000000"', '"7f0e1f2a-0000-4000-8000-000000000000"'],
    ['txt', '"a\\u0041\\n😀\\\\"', '"aA\\n😀\\\\"'],
    ['txt', '5', '"5"'],
    ['vc', '"12345"'],
    ['ch', '"ab"', '"ab "'],
    ['mood', '"happy"'],
    ['ip', '"10.0.0.1"'],
    ['rng', '"[1,5)"'],
    ['mr', '"{[1,3),[5,7)}"'],
    ['cash', '"$1.50"'],
    ['pair', '{"a":1,"b":"x"}'],
    ['pairs', '[{"a":1,"b":"x"},{"a":null,"b":null}]'],
    ['short', '"abc"'],
    ['pos', '7'],
    ['bits', '"101"'],
    ['xm', '"<a/>"'],
    ['pt', '"(1,2)"'],
    ['txt', 'null'],
  ]
  for (const [column, input, output = input] of cases) {
    const { status, out, body } = await write(column, input)
    assert.deepEqual([status, out], [201, output], `${column} ${input} ${JSON.stringify(body)}`)
  }
})

test('what does not fit a type is a bad request', async () => {
  const cases: [column: string, input: string, message: string | RegExp][] = [
    ['bool', '"maybe"', 'invalid boolean value: expected true or false'],
    ['small', '32768', 'invalid smallint value: expected a whole number from -32768 to 32767'],
    ['int4', '1.5', /^invalid integer value/],
    ['int4', 'true', /^invalid integer value/],
    ['int4', '{}', /^invalid integer value/],
    ['int8', '99999999999999999999', /^invalid bigint value/],
    ['num', '"abc"', 'invalid numeric value: expected a number'],
    ['fixed', '99999', 'invalid numeric value: out of range'],
    ['real4', '1e300', 'invalid real value: out of range'],
    ['real8', '1e999', 'invalid double precision value: out of range'],
    ['t', '"25:00"', 'invalid date/time value: out of range'],
    ['tz', '"2026-02-30T10:00:00Z"', 'invalid date/time value: out of range'],
    ['tz', '"300000-01-01T00:00:00Z"', 'invalid timestamp value: out of range'],
    ['d', '"2026-02-30"', 'invalid date/time value: out of range'],
    ['d', '"soon"', 'invalid date value: expected YYYY-MM-DD'],
    ['t', '"soon"', 'invalid time value: expected HH:MM:SS'],
    ['ints', '5', /^invalid|expected JSON array/],
    ['ints', '{"a":1}', /./],
    ['ints', '["x"]', /^invalid integer value/],
    ['grid', '[[1],[2,3]]', /./],
    ['tz', '"yesterday-ish"', /^invalid timestamp with time zone value/],
    ['d', '"2026-13-01"', /^invalid/],
    ['uid', '"x"', 'invalid uuid value: expected xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx'],
    ['vc', '"123456"', /^invalid character varying\(5\) value: too long/],
    ['short', '"abcd"', /./],
    ['mood', '"angry"', 'invalid mood value'],
    ['bin', '"\\\\xZZ"', /^invalid/],
    ['txt', '"a\\u0000b"', /^invalid text value/],
    ['txt', '"\\ud800"', /^invalid/],
    ['jsb', '"a\\u0000b"', /^invalid/],
    ['rng', '"[5,1]"', /./],
    ['pair', '{"a":"x"}', /^invalid integer value/],
    ['xm', '"<a"', /./],
  ]
  for (const [column, input, message] of cases) {
    const { status, body } = await write(column, input)
    assert.equal(status, 400, `${column} ${input}: ${JSON.stringify(body)}`)
    if (typeof message === 'string') assert.equal(body.message, message)
    else assert.match(body.message, message)
  }
  const domain = await write('pos', '-1')
  assert.deepEqual([domain.status, domain.body.message], [422, 'check constraint violation'])
})

test('a NOT NULL domain is only asked about when the column is written', async () => {
  assert.equal((await write('txt', '"x"')).status, 201)
  assert.equal((await write('pos', 'null')).status, 422)
})
