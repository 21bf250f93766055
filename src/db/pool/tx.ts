import { countDbWait } from '../../core/timing.ts'
import type { Row, Tx } from '../db.ts'
import { CLAIM_INDEX } from '../once.ts'
import { asUnknownFate, fromPg, isConnectionLost, type PgError } from '../pg-errors.ts'
import { rowReader } from '../protocol/data-rows.ts'
import { Flight, type FlightPlan, type Step, stepOf } from '../protocol/flight.ts'
import { Sql } from '../sql.ts'
import type { PooledConnection } from './request.ts'

const statement = (text: string): Step => ({ text, values: [] })

/** An explicit transaction on a connection that nothing else uses meanwhile. */
export async function runTransaction<T>(
  connection: PooledConnection,
  session: { step: Step; role: string },
  work: (tx: Tx) => Promise<T>,
  begin = 'begin',
  /** Of a transaction with an Idempotency-Key. */
  once?: { readonly claim: Step; keep(result: T): Step },
  /** Sent in the packet of the commit; see NotePosition. */
  note?: () => Promise<void>,
): Promise<T> {
  type Options = Pick<FlightPlan, 'wantsRows' | 'takeRows'>
  const fly = (steps: readonly Step[], options?: Options): Promise<Flight> =>
    new Promise((resolve, reject) => {
      const plan = { steps, role: session.role, ...options }
      connection.send(new Flight(plan, (error, flight) => (error ? reject(error) : resolve(flight))))
    })
  const send = async (statements: Sql | readonly Sql[], options?: Options): Promise<Flight> => {
    const steps = statements instanceof Sql ? [stepOf(statements)] : statements.map(stepOf)
    try {
      return await countDbWait(fly(steps, options), statements)
    } catch (thrown) {
      const error = thrown as PgError
      error.statement = steps[error.statementIndex ?? 0]?.text
      throw fromPg(error)
    }
  }
  const tx: Tx = {
    fly: (async (statements: Sql | readonly Sql[]) => {
      const { values } = await send(statements)
      return statements instanceof Sql ? (values[0] ?? null) : values
    }) as Tx['fly'],
    rows: async <R extends object = Row>(sql: Sql) => (await send(sql, { wantsRows: true })).rows<R>(),
    run: async (sql) => (await send(sql)).count,
    each: async (sql, onRow, hold) => {
      const read = rowReader(onRow)
      const takeRows = (messages: Buffer): Promise<void> | undefined => {
        read(messages)
        return hold()
      }
      return (await send(sql, { takeRows })).count
    },
  }
  await fly([statement(begin), session.step])
  let result: T
  let last: Step[]
  try {
    if (once) await fly([once.claim]).catch(refusedClaim)
    result = await work(tx)
    last = once ? [once.keep(result)] : []
  } catch (error) {
    await fly([statement('rollback')]).catch(() => connection.destroy())
    throw error
  }
  const committing = fly([...last, statement('commit')])
  const noted = note?.()
  const { tag } = await committing.catch((error: PgError) => {
    throw isConnectionLost(error) ? asUnknownFate(error) : error
  })
  // COMMIT of a transaction that already failed answers ROLLBACK without an error.
  if (tag !== 'COMMIT') throw new Error('transaction was rolled back')
  await noted
  return result
}

const refusedClaim = (error: unknown): never => {
  throw Object.assign(error as PgError, { statementIndex: CLAIM_INDEX })
}
