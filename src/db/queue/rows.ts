import { Ident, type Sql, sql } from '../sql.ts'

export type ClaimedItem = {
  id: string
  group: string
  payload: unknown
  attempt: number
  /** Null: the kind decides how often its items are tried. */
  maxAttempts: number | null
}
/** Who holds an item: a claim is valid for its worker and its attempt, so a zombie can never settle another's claim. */
export type ItemClaim = { id: string; worker: string; attempt: number }

export type PushOptions = {
  delaySeconds?: number
  group?: string
  /** A data-modifying statement with RETURNING; the item is queued once for each row it returns. */
  forEach?: Sql
}

type ClaimOptions = {
  kind: string
  worker: string
  free: number
  perGroup: number
  leaseSeconds: number
  /** Items of this process under way, per group. */
  running: ReadonlyMap<string, number>
}

/** Planning one of these statements takes longer than running it, and its plan does not depend on its values. */
const PLANNED_ONCE = sql`set_config('plan_cache_mode', 'force_generic_plan', true)`
export const genericPlan: Sql = sql`select ${PLANNED_ONCE}`
/** A claim that a crash of the database forgets is made again; nobody waits for the disk on its account. */
export const asyncCommit: Sql = sql`select ${PLANNED_ONCE}, set_config('synchronous_commit', 'off', true)`

export const seconds = (n: number): Sql => sql`make_interval(secs => ${n})`

/**
 * The statements of a table of work. A table has the columns id, payload, attempts, run_at, lease_until, worker and
 * last_error; where it differs from svc.queue, a subclass says so.
 */
export class QueueRows {
  protected readonly table: Ident = new Ident('svc', 'queue')
  protected readonly group: Ident = new Ident('group_key')
  protected readonly idType: Sql = sql`bigint`
  protected readonly maxAttempts: Sql = sql`null::int`
  /** What else a claim sets. */
  protected readonly onClaim: Sql = sql``
  /** When the item was first due: an interrupted one keeps its place among those that wait. */
  protected readonly firstDue: Sql = sql`created_at`
  /** What else is set on an item that goes back. */
  protected readonly onReturn: Sql = sql``

  /** The rows, called q, of this kind that a claim may find once they are due. */
  protected isOf(kind: Sql): Sql {
    return sql`q.kind = ${kind}`
  }

  /**
   * Up to `free` due items, one of each group before a second of any, and of a group no more than its cap leaves.
   * Groups are found by hopping over the index, so a long backlog of one group costs the others nothing. What another
   * process is claiming is passed over for what stands behind it.
   */
  claim(ask: ClaimOptions): Sql {
    const { table, group } = this
    const isOurs = this.isOf(sql`${ask.kind}`)
    const most = sql`${ask.free}::int`
    return sql`
  with recursive ${this.#groups(isOurs)}, due as (
    select g.name, least(${most}, ${ask.perGroup}::int - coalesce(b.running, 0)) as room from groups g
    left join unnest(${[...ask.running.keys()]}::text[], ${[...ask.running.values()]}::int[]) as b(name, running)
      on b.name = g.name
    where g.first <= now() and coalesce(b.running, 0) < ${ask.perGroup}::int
    order by g.first limit ${most}
  ), locked as (
    select l.id, l.run_at, row_number() over (partition by due.name order by l.run_at, l.id) as turn from due
    cross join lateral (
      select q.id, q.run_at from ${table} q where ${isOurs} and q.${group} = due.name and q.run_at <= now()
      order by q.run_at, q.id limit due.room for update skip locked
    ) l
  )
  update ${table} q
  set attempts = q.attempts + 1, worker = ${ask.worker},
      lease_until = now() + ${seconds(ask.leaseSeconds)}, run_at = now() + ${seconds(ask.leaseSeconds)}${this.onClaim}
  where q.id = any(array(select l.id from locked l order by l.turn, l.run_at, l.id limit ${most}))
  returning q.id::text as id, q.${group} as "group", q.payload, q.attempts as attempt, ${this.maxAttempts} as "maxAttempts"`
  }

  /** Items whose lease ran out go back to where they stood, so that a dead process does not put them behind the others. */
  returnExpired(): Sql {
    return sql`
  update ${this.table} q set worker = null, lease_until = null, run_at = ${this.firstDue}${this.onReturn}
  where q.id in (select e.id from ${this.table} e where e.worker is not null and e.run_at <= now() for update skip locked)`
  }

  /** Which kinds have something to do. A group costs one probe of an index, however long its backlog is. */
  due(kinds: readonly string[]): Sql {
    const isOurs = this.isOf(sql`kind.kind`)
    return sql`
  select kind from unnest(${kinds}::text[]) as kind where exists (
    with recursive ${this.#groups(isOurs)} select from groups g where g.first <= now())`
  }

  /** Returns the ids that are still ours. */
  renew(worker: string, ids: readonly string[], leaseSeconds: number): Sql {
    return sql`
  update ${this.table} set lease_until = now() + ${seconds(leaseSeconds)}, run_at = now() + ${seconds(leaseSeconds)}
  where worker = ${worker} and id = any(${ids}::${this.idType}[])
  returning id::text as id`
  }

  /** Every one of `holds` is by the same worker. */
  done(holds: readonly ItemClaim[]): Sql {
    return sql`delete from ${this.table} q using ${this.claimed(holds)}`
  }

  retry(hold: ItemClaim, delaySeconds: number, error: string): Sql {
    return sql`
  update ${this.table} q set worker = null, lease_until = null, run_at = now() + ${seconds(delaySeconds)},
    last_error = ${error} from ${this.claimed([hold])}`
  }

  /** It failed for good. */
  bury(hold: ItemClaim, _error: string): Sql {
    return this.done([hold])
  }

  /** An interrupted attempt does not count. `but` are the ids that the worker keeps. */
  giveBack(worker: string, but: readonly string[]): Sql {
    return sql`
  update ${this.table} q set worker = null, lease_until = null, run_at = ${this.firstDue}, attempts = greatest(0, attempts - 1)
  where worker = ${worker} and id <> all(${but}::${this.idType}[])`
  }

  /** The groups of what waits or runs, each with the time at which its first item is due. */
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

  protected claimed(holds: readonly ItemClaim[]): Sql {
    const [ids, attempts] = [holds.map(({ id }) => id), holds.map(({ attempt }) => attempt)]
    return sql`unnest(${ids}::${this.idType}[], ${attempts}::int[]) as h(id, attempts)
      where q.id = h.id and q.attempts = h.attempts and q.worker = ${holds[0]?.worker ?? ''}`
  }
}

export const queueRows = new QueueRows()

export function pushItem(kind: string, payload: object, { delaySeconds = 0, group = '', forEach }: PushOptions): Sql {
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

/** Beyond this many rows of a group the exact number tells nobody anything, and counting them would. */
const MAX_COUNTED = 10_000

/** How much waits or runs in each group. It steps from group to group by the index and counts a bounded part of each. */
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
