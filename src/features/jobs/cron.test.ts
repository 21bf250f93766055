import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testDatabase } from '../../../test/kit/database.ts'
import { SYSTEM } from '../../core/identity.ts'
import { sql } from '../../db/sql.ts'
import { CronTimes } from './cron.ts'

const pool = await (await testDatabase()).open()

/** Due times by PostgreSQL's own time zones: the first instant whose wall clock shows each due time, or a later one. */
async function judged(zone: string, from: string, days: number, minutes: number[], hours: number[]): Promise<string[]> {
  const rows = await pool.rows<{ due: Date }>(
    SYSTEM,
    sql`with instants as (
          select i, i at time zone ${zone} as wall
          from generate_series(${from}::timestamptz, ${from}::timestamptz + make_interval(days => ${days}::int), '1 minute') i
        ), due as (
          select w from generate_series((select min(wall) + interval '1 minute' from instants), (select max(wall) from instants), '1 minute') w
          where extract(minute from w) = any(${minutes}::int[]) and extract(hour from w) = any(${hours}::int[])
        )
        select distinct (select min(i) from instants where wall >= w) as due from due order by 1`,
  )
  return rows.map(({ due }) => due.toISOString()).filter((due) => due > new Date(from).toISOString())
}

function ours(expression: string, zone: string, from: string, count: number): string[] {
  const times = new CronTimes(expression, zone)
  const found: string[] = []
  for (let at = new Date(from); found.length < count; ) {
    const next = times.next(at)
    assert.ok(next && next > at)
    found.push(next.toISOString())
    at = next
  }
  return found
}

const every = (step: number, below: number) => Array.from({ length: Math.ceil(below / step) }, (_, i) => i * step)
const EXPRESSIONS: [string, number[], number[]][] = [
  ['30 2 * * *', [30], [2]],
  ['30 1 * * *', [30], [1]],
  ['0 0 * * *', [0], [0]],
  ['15 0 * * *', [15], [0]],
  ['*/20 2 * * *', every(20, 60), [2]],
  ['*/30 * * * *', every(30, 60), every(1, 24)],
  ['7 */3 * * *', [7], every(3, 24)],
]

for (const [zone, from] of [
  ['America/New_York', '2026-03-07T12:00:00Z'],
  ['America/New_York', '2026-10-31T12:00:00Z'],
  ['Europe/Berlin', '2026-03-28T12:00:00Z'],
  ['Europe/Berlin', '2026-10-24T12:00:00Z'],
  ['Australia/Lord_Howe', '2026-04-03T12:00:00Z'],
  ['Australia/Lord_Howe', '2026-10-02T12:00:00Z'],
  ['Africa/Cairo', '2026-04-23T12:00:00Z'],
  ['Asia/Kathmandu', '2026-05-01T12:00:00Z'],
  ['Pacific/Apia', '2011-12-29T00:00:00Z'],
] as const) {
  test(`${zone} from ${from}: due when PostgreSQL's clocks say so`, async () => {
    for (const [expression, minutes, hours] of EXPRESSIONS) {
      const expected = await judged(zone, from, 3, minutes, hours)
      assert.ok(expected.length > 0)
      assert.deepEqual(ours(expression, zone, from, expected.length), expected, expression)
    }
  })
}

test('of the two day fields one that fits is enough; names and 7 are understood', () => {
  assert.deepEqual(
    ours('0 0 13 * 5', 'UTC', '2026-11-01T00:00:00Z', 4).map((at) => at.slice(5, 10)),
    ['11-06', '11-13', '11-20', '11-27'],
  )
  const from = '2026-11-01T00:00:00Z'
  assert.deepEqual(ours('0 9 * JAN,feb Sun', 'UTC', from, 3), ours('0 9 * 1-2 7', 'UTC', from, 3))
  assert.deepEqual(ours('0 9 * * 0', 'UTC', from, 3), ours('0 9 * * 7', 'UTC', from, 3))
})

test('what is no cron expression of five fields, or never due, is refused', () => {
  for (const expression of [
    '',
    '* * * *',
    '0 0 0 1 1 *',
    '@daily',
    '*/0 * * * *',
    '60 * * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * 32 * *',
    '* * * 13 *',
    '* * * * 8',
    '5-1 * * * *',
    '0 0 31 2 *',
    '0 0 L * *',
    '0 0 15W * *',
    '0 0 * * 5#2',
    '? * * * *',
    '-1 * * * *',
    '1,,2 * * * *',
    '* * * * mon-',
    'x * * * *',
    '* * * * *\n* * * * *',
    `${'1,'.repeat(5_000)}1 * * * *`,
  ]) {
    assert.throws(() => new CronTimes(expression, 'UTC'), { message: 'invalid cron expression' }, expression)
  }
  for (const zone of ['Mars/X', '', '+02:00', 'UTC; drop', 'x'.repeat(10_000), '../etc']) {
    assert.throws(() => new CronTimes('* * * * *', zone), { message: 'invalid timezone' }, zone)
  }
})
