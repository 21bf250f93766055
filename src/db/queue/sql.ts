import { type Sql, sql } from '../sql.ts'

export type Claimed = { id: string; group: string; payload: unknown; attempt: number }
/** Who holds an item: a claim is valid for its worker and its attempt, so a zombie can never settle another's claim. */
export type Hold = { id: string; worker: string; attempt: number }

export type Push = {
  delaySeconds?: number
  group?: string
  /** A data-modifying statement with RETURNING; the item is queued once for each row it returns. */
  forEach?: Sql
}

const seconds = (n: number): Sql => sql`make_interval(secs => ${n})`

export function pushItem(kind: string, payload: object, { delaySeconds = 0, group = '', forEach }: Push): Sql {
  const values = sql`${kind}, ${group}, ${JSON.stringify(payload)}::jsonb, now() + ${seconds(delaySeconds)}`
  const into = sql`insert into svc.queue (kind, group_key, payload, run_at)`
  return forEach ? sql`with cause as (${forEach}) ${into} select ${values} from cause` : sql`${into} values (${values})`
}

/** One item for each row of `rows`, which has the columns group_key and payload. */
export const pushEach = (kind: string, rows: Sql): Sql => sql`
  insert into svc.queue (kind, group_key, payload) select ${kind}, rows.group_key, rows.payload from (${rows}) rows`

/** Whoever runs one of them meanwhile finds it gone when it wants to settle it. */
export const removeGroup = (kind: string, group: string): Sql =>
  sql`delete from svc.queue where kind = ${kind} and group_key = ${group}`

export const groupSizes = (kind: string): Sql =>
  sql`select group_key as "group", count(*)::int as size from svc.queue where kind = ${kind} group by group_key`

/**
 * Up to `free` due items, one of each group before a second of any, and no more of a group than its cap leaves.
 * Groups are found by hopping over the index, so a long backlog of one group costs the others nothing.
 */
export const claimItems = (ask: {
  kind: string
  worker: string
  free: number
  perGroup: number
  leaseSeconds: number
  /** Items of this process under way, per group. */
  running: ReadonlyMap<string, number>
}): Sql => sql`
  with recursive groups as (
    (select group_key from svc.queue where kind = ${ask.kind} order by group_key limit 1)
    union all
    select (select q.group_key from svc.queue q
            where q.kind = ${ask.kind} and q.group_key > g.group_key order by q.group_key limit 1)
    from groups g where g.group_key is not null
  ), busy as (
    select * from unnest(${[...ask.running.keys()]}::text[], ${[...ask.running.values()]}::int[]) as b(group_key, running)
  ), candidates as (
    select due.id from groups g
    left join busy b on b.group_key = g.group_key
    cross join lateral (
      select q.id, q.run_at, row_number() over (order by q.run_at, q.id) as turn from svc.queue q
      where q.kind = ${ask.kind} and q.group_key = g.group_key and q.run_at <= now()
      order by q.run_at, q.id
      limit greatest(0, least(${ask.free}::int, ${ask.perGroup}::int - coalesce(b.running, 0)))
    ) due
    order by due.turn, due.run_at, due.id limit ${ask.free}::int
  ), mine as (
    select id from svc.queue where id in (select id from candidates) and run_at <= now()
    for update skip locked
  )
  update svc.queue q
  set attempts = q.attempts + 1, worker = ${ask.worker},
      lease_until = now() + ${seconds(ask.leaseSeconds)}, run_at = now() + ${seconds(ask.leaseSeconds)}
  from mine where q.id = mine.id
  returning q.id::text as id, q.group_key as "group", q.payload, q.attempts as attempt`

/** `min` is one probe of an index, however long the backlog is. */
export const dueKinds = (kinds: readonly string[]): Sql => sql`
  select kind from unnest(${kinds}::text[]) as kind
  where (select min(q.run_at) from svc.queue q where q.kind = kind.kind) <= now()`

/** Returns the ids that are still ours. */
export const renewLeases = (worker: string, ids: readonly string[], leaseSeconds: number): Sql => sql`
  update svc.queue set lease_until = now() + ${seconds(leaseSeconds)}, run_at = now() + ${seconds(leaseSeconds)}
  where worker = ${worker} and id = any(${ids}::bigint[])
  returning id::text as id`

const held = ({ id, worker, attempt }: Hold): Sql =>
  sql`id = ${id}::bigint and worker = ${worker} and attempts = ${attempt}::int`

export const removeItem = (hold: Hold): Sql => sql`delete from svc.queue where ${held(hold)}`

export const retryItem = (hold: Hold, delaySeconds: number, error: string): Sql => sql`
  update svc.queue set worker = null, lease_until = null, run_at = now() + ${seconds(delaySeconds)}, last_error = ${error}
  where ${held(hold)}`

/** An interrupted attempt does not count. */
export const giveBack = (worker: string): Sql => sql`
  update svc.queue set worker = null, lease_until = null, run_at = now(), attempts = greatest(0, attempts - 1)
  where worker = ${worker}`

export const notifyOthers = (payload: string): Sql => sql`select pg_notify('svc_queue', ${payload})`
