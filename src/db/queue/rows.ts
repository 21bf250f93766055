import { Ident, type Sql, sql } from '../sql.ts'

export type ClaimedItem = {
  id: string
  group: string
  payload: unknown
  attempt: number
  /** Null: the kind decides. */
  maxAttempts: number | null
}
/** A claim is valid for one worker and one attempt, so a worker whose lease ran out cannot settle the item. */
export type ItemClaim = { id: string; worker: string; attempt: number }

/** The error of an item whose attempts are used up because each ended with its process. */
export const DIED_IN_EVERY_ATTEMPT = 'the process died in every attempt'

export type PushOptions = {
  delaySeconds?: number
  group?: string
  /** A data-modifying statement with RETURNING; the item is queued once for each row it returns. */
  forEach?: Sql
  /** A statement that changes data for each row of `cause`, which is what `forEach` returned. */
  beside?: Sql
}

type ClaimOptions = {
  kind: string
  worker: string
  free: number
  perGroup: number
  leaseSeconds: number
  /** Running items of this process, per group. */
  running: ReadonlyMap<string, number>
}

/** Planning these statements takes longer than running them, and the plan does not depend on the values. */
const PLANNED_ONCE = sql`set_config('plan_cache_mode', 'force_generic_plan', true)`
export const genericPlan: Sql = sql`select ${PLANNED_ONCE}`
/** Does not wait for the disk: a claim lost in a crash of the database is made again. */
export const asyncCommit: Sql = sql`select ${PLANNED_ONCE}, set_config('synchronous_commit', 'off', true)`

export const seconds = (n: number): Sql => sql`make_interval(secs => ${n})`

/**
 * The statements of a queue table. It has the columns id, payload, attempts, run_at, lease_until, worker and last_error;
 * a subclass overrides what differs from svc.queue.
 */
export class QueueRows {
  protected readonly table: Ident = new Ident('svc', 'queue')
  protected readonly group: Ident = new Ident('group_key')
  protected readonly idType: Sql = sql`bigint`
  protected readonly maxAttempts: Sql = sql`null::int`
  /** More assignments of a claim. */
  protected readonly onClaim: Sql = sql``
  /** When the item was first due, so that an interrupted one keeps its position in the queue. */
  protected readonly firstDue: Sql = sql`created_at`
  /** More assignments for an item whose lease ran out. */
  protected readonly onReturn: Sql = sql``

  /** Condition over row q: of this kind, and claimable once due. */
  protected isOf(kind: Sql): Sql {
    return sql`q.kind = ${kind}`
  }

  /**
   * Up to `free` due items, one of each group before a second of any, and at most `perGroup` running of a group.
   * Groups are found by an index skip scan, so a long backlog of one group does not slow down the others. Rows that
   * another process is claiming are skipped.
   */
  claim(options: ClaimOptions): Sql {
    const { table, group } = this
    const isOurs = this.isOf(sql`${options.kind}`)
    const limit = sql`${options.free}::int`
    return sql`
  with recursive ${this.#groups(isOurs)}, due as (
    select g.name, least(${limit}, ${options.perGroup}::int - coalesce(b.running, 0)) as room from groups g
    left join unnest(${[...options.running.keys()]}::text[], ${[...options.running.values()]}::int[]) as b(name, running)
      on b.name = g.name
    where g.first <= now() and coalesce(b.running, 0) < ${options.perGroup}::int
    order by g.first limit ${limit}
  ), locked as (
    select l.id, l.run_at, row_number() over (partition by due.name order by l.run_at, l.id) as nth from due
    cross join lateral (
      select q.id, q.run_at from ${table} q where ${isOurs} and q.${group} = due.name and q.run_at <= now()
      order by q.run_at, q.id limit due.room for update skip locked
    ) l
  )
  update ${table} q
  set attempts = q.attempts + 1, worker = ${options.worker},
      lease_until = now() + ${seconds(options.leaseSeconds)}, run_at = now() + ${seconds(options.leaseSeconds)}${this.onClaim}
  where q.id = any(array(select l.id from locked l order by l.nth, l.run_at, l.id limit ${limit}))
  returning q.id::text as id, q.${group} as "group", q.payload, q.attempts as attempt, ${this.maxAttempts} as "maxAttempts"`
  }

  /** Items whose lease ran out get their first due time again, so they do not fall behind newer items. */
  returnExpired(): Sql {
    return sql`
  update ${this.table} q set worker = null, lease_until = null, run_at = ${this.firstDue}${this.onReturn}
  where q.id in (select e.id from ${this.table} e where e.worker is not null and e.run_at <= now() for update skip locked)`
  }

  /** The kinds with due items, by one index probe per group. */
  due(kinds: readonly string[]): Sql {
    const isOurs = this.isOf(sql`kind.kind`)
    return sql`
  select kind from unnest(${kinds}::text[]) as kind where exists (
    with recursive ${this.#groups(isOurs)} select from groups g where g.first <= now())`
  }

  /** Returns the ids this worker still claims. */
  renew(worker: string, ids: readonly string[], leaseSeconds: number): Sql {
    return sql`
  update ${this.table} set lease_until = now() + ${seconds(leaseSeconds)}, run_at = now() + ${seconds(leaseSeconds)}
  where worker = ${worker} and id = any(${ids}::${this.idType}[])
  returning id::text as id`
  }

  /** All `claims` are of one worker. */
  done(claims: readonly ItemClaim[]): Sql {
    return sql`delete from ${this.table} q using ${this.claimed(claims)}`
  }

  retry(claim: ItemClaim, delaySeconds: number, error: string): Sql {
    return sql`
  update ${this.table} q set worker = null, lease_until = null, run_at = now() + ${seconds(delaySeconds)},
    last_error = ${error} from ${this.claimed([claim])}`
  }

  /** The item failed for good. */
  bury(claim: ItemClaim, _error: string): Sql {
    return this.done([claim])
  }

  /** Returns all items of a worker except `keptIds`. The interrupted attempt does not count. */
  giveBack(worker: string, keptIds: readonly string[]): Sql {
    return sql`
  update ${this.table} q set worker = null, lease_until = null, run_at = ${this.firstDue}, attempts = greatest(0, attempts - 1)
  where worker = ${worker} and id <> all(${keptIds}::${this.idType}[])`
  }

  /** The groups, each with the time at which its first item is due. */
  #groups(isOurs: Sql): Sql {
    const { table, group } = this
    const first = sql`order by q.${group}, q.run_at limit 1`
    return sql`groups(name, first) as (
    (select q.${group}, q.run_at from ${table} q where ${isOurs} ${first})
    union all
    select next.* from groups g
    cross join lateral (select q.${group}, q.run_at from ${table} q where ${isOurs} and q.${group} > g.name ${first}) next
  )`
  }

  protected claimed(claims: readonly ItemClaim[]): Sql {
    const [ids, attempts] = [claims.map(({ id }) => id), claims.map(({ attempt }) => attempt)]
    return sql`unnest(${ids}::${this.idType}[], ${attempts}::int[]) as c(id, attempts)
      where q.id = c.id and q.attempts = c.attempts and q.worker = ${claims[0]?.worker ?? ''}`
  }
}

export const queueRows = new QueueRows()

export function pushItem(kind: string, payload: object, options: PushOptions): Sql {
  const { delaySeconds = 0, group = '', forEach, beside } = options
  const values = sql`${kind}, ${group}, ${JSON.stringify(payload)}::jsonb, now() + ${seconds(delaySeconds)}`
  const into = sql`insert into svc.queue (kind, group_key, payload, run_at)`
  if (!forEach) return sql`${into} values (${values})`
  const more = beside ? sql`, beside as (${beside})` : sql``
  return sql`with cause as (${forEach})${more} ${into} select ${values} from cause`
}

/** One item for each row of `rows`, which has the columns group_key and payload. */
export const pushEach = (kind: string, rows: Sql): Sql => sql`
  insert into svc.queue (kind, group_key, payload) select ${kind}, rows.group_key, rows.payload from (${rows}) rows`

/** Items that are running are removed too; settling them then changes nothing. */
export const removeGroup = (kind: string, group: string): Sql =>
  sql`delete from svc.queue where kind = ${kind} and group_key = ${group}`

/** Counting stops here, to bound the cost per group. */
const MAX_COUNTED = 10_000

/** The number of items in each group, by an index skip scan over the groups. */
export const groupSizes = (kind: string): Sql => sql`
  with recursive groups(group_key) as (
    (select group_key from svc.queue where kind = ${kind} order by group_key limit 1)
    union all
    select (select q.group_key from svc.queue q where q.kind = ${kind} and q.group_key > g.group_key order by q.group_key limit 1)
    from groups g where g.group_key is not null
  )
  select g.group_key as "group", (
    select count(*) from (select from svc.queue q where q.kind = ${kind} and q.group_key = g.group_key
      order by q.run_at, q.id limit ${MAX_COUNTED}::int) counted
  )::int as size
  from groups g where g.group_key is not null`

export const notifyWorkers = (payload: string): Sql => sql`select pg_notify('svc_queue', ${payload})`
