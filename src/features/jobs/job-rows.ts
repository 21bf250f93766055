import { DIED_IN_EVERY_ATTEMPT, type ItemClaim, QueueRows, seconds } from '../../db/queue/rows.ts'
import { Ident, type Sql, sql } from '../../db/sql.ts'

const FINISHED = sql`finished_at = now(), updated_at = now(), worker = null, lease_until = null`

/** An interrupted attempt counts, whatever ended it; without a further one the job has failed. */
const isUsedUp = sql`q.attempts >= q.max_attempts`
const AFTER_INTERRUPTION = sql`updated_at = now(), state = case when ${isUsedUp} then 'failed' else 'queued' end,
  last_error = case when ${isUsedUp} then ${DIED_IN_EVERY_ATTEMPT} else q.last_error end,
  finished_at = case when ${isUsedUp} then now() end`

/** svc.jobs as a queue table; finished jobs stay, with their state. */
export class JobRows extends QueueRows {
  protected override readonly table = new Ident('svc', 'jobs')
  protected override readonly group = new Ident('type')
  protected override readonly idType = sql`uuid`
  protected override readonly maxAttempts = sql`q.max_attempts`
  protected override readonly onClaim = sql`, state = 'running', last_run_at = now(), updated_at = now(),
      progress = null, log = case when q.attempts = 0 then '{}' else q.log end`

  protected override readonly firstDue = sql`planned_at`
  protected override readonly onReturn = sql`, ${AFTER_INTERRUPTION}`

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

  override giveBack(worker: string, but: readonly string[]): Sql {
    return sql`update svc.jobs q set worker = null, lease_until = null, run_at = planned_at, ${AFTER_INTERRUPTION}
      where q.worker = ${worker} and q.id <> all(${but}::uuid[])`
  }
}
