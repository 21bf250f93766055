import { SYSTEM } from '../core/identity.ts'
import type { Db } from './db.ts'
import { Loop } from './loop.ts'
import { type Sql, sql } from './sql.ts'

type Count = { count: number; secondsLeft: number; resetAt: number }

const SWEEP_EVERY_MS = 60_000
const SLICE = 10_000

/** Counters per key, in windows that begin with the first request; they use the database's clock, so all nodes agree. */
export function createCounters({ db }: { db: Db }) {
  // Failures are ignored: the next sweep removes the rest.
  const sweeping = new Loop({
    step: async () => ((await db.run(SYSTEM, removeSlice)) >= SLICE ? 0 : undefined),
    everyMs: SWEEP_EVERY_MS,
    firstMs: SWEEP_EVERY_MS,
  })

  return {
    async add(key: string, seconds: number): Promise<Count> {
      const text = await db.fly(SYSTEM, addOne(key, seconds))
      if (text === null) throw new Error('the counter gave no answer')
      return JSON.parse(text) as Count
    },
    stop: (): Promise<void> => sweeping.stop(),
  }
}

/** One statement, so that the row's lock serialises parallel requests of all nodes. */
const addOne = (key: string, seconds: number) => sql`
  insert into svc.rate_counters as c (key, count, ends_at)
  values (${key}, 1, clock_timestamp() + make_interval(secs => ${seconds}::int))
  on conflict (key) do update set
    count = case when c.ends_at <= clock_timestamp() then 1 else least(c.count, 2000000000) + 1 end,
    ends_at = case when c.ends_at <= clock_timestamp() then excluded.ends_at else c.ends_at end
  returning json_build_object(
    'count', count,
    'secondsLeft', greatest(extract(epoch from ends_at - clock_timestamp()), 0),
    'resetAt', ceil(extract(epoch from ends_at))::bigint)::text`

/** As a statement for another flight: counts one and returns a row, unless `max` are counted already in this window. */
export const countUpTo = (key: string, max: number, seconds: number): Sql => sql`
  insert into svc.rate_counters as c (key, count, ends_at)
  values (${key}, 1, clock_timestamp() + make_interval(secs => ${seconds}::int))
  on conflict (key) do update set
    count = case when c.ends_at <= clock_timestamp() then 1 else c.count + 1 end,
    ends_at = case when c.ends_at <= clock_timestamp() then excluded.ends_at else c.ends_at end
  where c.ends_at <= clock_timestamp() or c.count < ${max}::int
  returning 1`

/** Skips rows that another request is incrementing: that starts a new window. */
const removeSlice = sql`
  delete from svc.rate_counters where key in (
    select key from svc.rate_counters where ends_at < clock_timestamp() limit ${SLICE}::int for update skip locked)`
