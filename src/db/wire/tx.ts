import { budgets } from '../../core/budgets.ts'
import type { Row, Tx } from '../db.ts'
import { fromPg, type PgError } from '../pg-errors.ts'
import type { Sql } from '../sql.ts'
import { toRow, toText } from '../values.ts'
import type { Connection } from './connection.ts'
import { Flight, type Step } from './flight.ts'

const statement = (text: string): Step => ({ text, values: [] })

/** An explicit transaction on a connection that nobody else uses meanwhile. */
export async function runTransaction<T>(
  connection: Connection,
  session: { step: Step; role: string },
  work: (tx: Tx) => Promise<T>,
  begin = 'begin',
): Promise<T> {
  const fly = (steps: readonly Step[], wantsRows = false): Promise<Flight> =>
    new Promise((resolve, reject) => {
      const plan = {
        steps,
        role: session.role,
        work: 'slow',
        wantsRows,
        tidies: false,
        maxBytes: budgets.answerBytes,
      } as const
      connection.send(new Flight(plan, (flight, error) => (error ? reject(error) : resolve(flight))))
    })
  const send = async (sql: Sql, wantsRows = false): Promise<Flight> => {
    const { text, values } = sql.render()
    try {
      return await fly([{ text, values: values.map(toText) }], wantsRows)
    } catch (error) {
      throw fromPg(error as PgError)
    }
  }
  const tx: Tx = {
    fly: async (sql) => (await send(sql)).texts[0] ?? null,
    rows: async <R extends object = Row>(sql: Sql) => {
      const { found, fields } = await send(sql, true)
      return found.map((texts) => toRow(fields, texts) as R)
    },
    texts: async (sql) => (await send(sql, true)).found,
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
