import type { AppError } from '../../core/errors.ts'
import type { KeepOnce } from '../../core/once.ts'
import type { Relayed } from '../db.ts'
import { claimStatement, keepStatement } from '../once.ts'
import { asUnknownFate, isConnectionLost, type PgError } from '../pg-errors.ts'
import { Flight, type FlightPlan, type Step, stepOf } from '../protocol/flight.ts'
import type { Done, PooledConnection } from './request.ts'
import { SESSION_STEP } from './session.ts'

const BEGIN: Step = { text: 'begin', values: [] }
const COMMIT: Step = { text: 'commit', values: [] }
const ROLLBACK: Step = { text: 'rollback', values: [] }
/** What the commit would check, so that its refusal is one of the statements. */
const CHECK: Step = { text: 'set constraints all immediate', values: [] }

/** Steps in front of the caller's statements: the session's, BEGIN, the claim. */
export const ONCE_STEPS = 3

type OncePlan = Omit<FlightPlan, 'steps'> & {
  readonly session: Step
  readonly steps: readonly Step[]
  readonly once: KeepOnce<readonly (Relayed | null)[]>
  readonly logKey: string
}

/**
 * A write with an Idempotency-Key: claim and statements in one flight, then its answer and the commit in a second one, on
 * the same connection. `afterwards` is called when the transaction is over, before `onDone`.
 */
export function flyOnce(connection: PooledConnection, plan: OncePlan, afterwards: () => void, onDone: Done): Flight {
  const { session, steps, once, logKey, ...rest } = plan
  const end = (error: PgError | AppError | null, flight?: Flight): void => {
    if (error) connection.send(new Flight({ ...rest, steps: [ROLLBACK] }, (lost) => lost && connection.destroy()))
    afterwards()
    onDone(error, flight)
  }
  const keep = (flight: Flight): void => {
    let kept: Step
    try {
      kept = stepOf(keepStatement(logKey, once.key, once.answer(flight.values.slice(ONCE_STEPS, -1))))
    } catch (refusal) {
      end(refusal as Error)
      return
    }
    connection.send(
      new Flight({ ...rest, steps: [kept, COMMIT] }, (error, { tag }) => {
        // The statements were good.
        if (error) Reflect.deleteProperty(error, 'statementIndex')
        if (isConnectionLost(error)) asUnknownFate(error as PgError)
        if (error) end(error)
        else end(tag === 'COMMIT' ? null : new Error('transaction was rolled back'), flight)
      }),
    )
  }
  // BEGIN makes an ordinary transaction of the implicit one that the session's step has begun.
  const all = [session, BEGIN, stepOf(claimStatement(logKey, once.key)), ...steps, CHECK]
  const flight = new Flight({ ...rest, steps: all }, (error, done) => {
    if (!error) return keep(done)
    const index = (error as PgError).statementIndex ?? -1
    if (index === SESSION_STEP) void connection.close()
    // Counted as if only the session's step were in front of the statements; see CLAIM_INDEX.
    if (index >= ONCE_STEPS - 1) Object.assign(error, { statementIndex: index - ONCE_STEPS + 1 })
    end(error)
  })
  connection.send(flight)
  return flight
}

/** The same for a transaction: steps that are flown after its BEGIN and before its COMMIT. */
export const keepingIn = <T>(logKey: string, { key, answer }: KeepOnce<T>) => ({
  claim: stepOf(claimStatement(logKey, key)),
  keep: (result: T): Step => stepOf(keepStatement(logKey, key, answer(result))),
})
