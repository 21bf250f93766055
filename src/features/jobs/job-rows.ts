import { type ItemClaim, QueueRows, seconds } from '../../db/queue/rows.ts'
import { Ident, type Sql, sql } from '../../db/sql.ts'

const FINISHED = sql`finished_at = now(), updated_at = now(), worker = null, lease_until = null`

/** svc.jobs as a queue table; finished jobs stay, with their state. */
export class JobRows extends QueueRows {
  protected override readonly table = new Ident('svc', 'jobs')
  protected override readonly group = new Ident('type')
  protected override readonly idType = sql`uuid`
  protected override readonly maxAttempts = sql`q.max_attempts`
  protected override readonly onClaim = sql`, state = 'running', last_run_at = now(), updated_at = now(),
      progress = null, log = case when q.attempts = 0 then '{}' else q.log end`

  protected override readonly firstDue = sql`planned_at`
  protected override readonly onReturn = sql`, state = 'queued', updated_at = now()`

  /** There is one kind. Running jobs are not in the claim index; after its lease a poll queues a job again. */
  protected override isOf(): Sql {
    return sql`q.state = 'queued'`
  }

  override done(holds: readonly ItemClaim[]): Sql {
    return sql`update svc.jobs q set state = 'completed', last_error = null, ${FINISHED} from ${this.claimed(holds)}`
  }

  override retry(hold: ItemClaim, delaySeconds: number, error: string): Sql {
    const next = sql`now() + ${seconds(delaySeconds)}`
    return sql`update svc.jobs q set state = 'queued', worker = null, lease_until = null, run_at = ${next},
      planned_at = ${next}, last_error = ${error}, updated_at = now() from ${this.claimed([hold])}`
  }

  override bury(hold: ItemClaim, error: string): Sql {
    return sql`update svc.jobs q set state = 'failed', last_error = ${error}, ${FINISHED} from ${this.claimed([hold])}`
  }

  /** Keeps the attempt count: a job starts at most max_attempts times, whatever ended its runs. */
  override giveBack(worker: string, but: readonly string[]): Sql {
    return sql`update svc.jobs set state = 'queued', worker = null, lease_until = null, run_at = planned_at,
      updated_at = now() where worker = ${worker} and id <> all(${but}::uuid[])`
  }
}
