import { budgets } from '../../core/budgets.ts'
import { waitedFor } from '../../core/timing.ts'
import type { Row, Tx } from '../db.ts'
import { fromPg, type PgError } from '../pg-errors.ts'
import { Sql } from '../sql.ts'
import type { Connection } from './connection.ts'
import { rowReader } from './data-rows.ts'
import { Flight, type FlightPlan, type Step, stepOf } from './flight.ts'

const statement = (text: string): Step => ({ text, values: [] })

/** An explicit transaction on a connection that nobody else uses meanwhile. */
export async function runTransaction<T>(
  connection: Connection,
  session: { step: Step; role: string },
  work: (tx: Tx) => Promise<T>,
  begin = 'begin',
): Promise<T> {
  type Wish = Partial<Pick<FlightPlan, 'wants' | 'takeRows'>>
  const fly = (steps: readonly Step[], wish: Wish = {}): Promise<Flight> =>
    new Promise((resolve, reject) => {
      const plan = {
        steps,
        role: session.role,
        work: 'slow',
        wants: 'value',
        relays: false,
        tidies: false,
        maxBytes: budgets.answerBytes,
        ...wish,
      } as const
      connection.send(new Flight(plan, (flight, error) => (error ? reject(error) : resolve(flight))))
    })
  const sendAll = async (statements: readonly Sql[], wish?: Wish): Promise<Flight> => {
    const steps = statements.map(stepOf)
    try {
      return await waitedFor(fly(steps, wish))
    } catch (thrown) {
      const error = thrown as PgError
      error.statement = steps[error.statementIndex ?? 0]?.text
      throw fromPg(error)
    }
  }
  const send = (sql: Sql, wish?: Wish): Promise<Flight> => sendAll([sql], wish)
  const tx: Tx = {
    fly: (async (statements: Sql | readonly Sql[]) =>
      statements instanceof Sql
        ? ((await send(statements)).texts[0] ?? null)
        : (await sendAll(statements)).texts) as Tx['fly'],
    rows: async <R extends object = Row>(sql: Sql) => (await send(sql, { wants: 'rows' })).rows<R>(),
    each: async (sql, onRow, hold) => {
      const read = rowReader(onRow)
      const takeRows = (messages: Buffer): Promise<void> | undefined => {
        read(messages)
        return hold()
      }
      return (await send(sql, { takeRows })).count
    },
    run: async (sql) => (await send(sql)).count,
  }
  await fly([statement(begin), session.step])
  let result: T
  try {
    result = await work(tx)
  } catch (error) {
    await fly([statement('rollback')]).catch(() => connection.destroy())
    throw error
  }
  const { tag } = await fly([statement('commit')])
  // COMMIT of a transaction that already failed answers ROLLBACK without an error.
  if (tag !== 'COMMIT') throw new Error('transaction was rolled back')
  return result
}
