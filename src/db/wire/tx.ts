import type { Row, Tx } from '../db.ts'
import { fromPg, type PgError } from '../pg-errors.ts'
import type { Sql } from '../sql.ts'
import { toRow, toText } from '../values.ts'
import type { Connection } from './connection.ts'
import type { Step, StepResult } from './flight.ts'

const statement = (text: string): Step => ({ text, values: [] })

/** An explicit transaction on a connection that nobody else uses meanwhile. */
export async function runTransaction<T>(
  connection: Connection,
  session: { step: Step; role: string },
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  await connection.send([statement('begin'), session.step], session.role)
  const send = async (sql: Sql, describe: boolean): Promise<StepResult> => {
    const { text, values } = sql.render()
    try {
      const [result] = await connection.send([{ text, values: values.map(toText) }], session.role, { describe })
      return result as StepResult
    } catch (error) {
      throw fromPg(error as PgError)
    }
  }
  const tx: Tx = {
    fly: async (sql) => (await send(sql, false)).rows[0]?.[0] ?? null,
    rows: async <R extends object = Row>(sql: Sql) => {
      const { rows, fields } = await send(sql, true)
      return rows.map((texts) => toRow(fields, texts) as R)
    },
    run: async (sql) => (await send(sql, false)).count,
  }
  let result: T
  try {
    result = await work(tx)
  } catch (error) {
    await connection.send([statement('rollback')], session.role).catch(() => connection.destroy())
    throw error
  }
  const [committed] = await connection.send([statement('commit')], session.role)
  // COMMIT of a transaction that already failed answers ROLLBACK without an error.
  if (committed?.tag !== 'COMMIT') throw new Error('transaction was rolled back')
  return result
}
