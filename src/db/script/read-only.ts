import type pg from 'pg'
import { AppError } from '../../core/errors.ts'
import { isReadOnly } from '../pg-errors.ts'
import { executeSingle, keptBy, type ScriptResult } from './execute.ts'
import { splitScript } from './split.ts'

const READS: ReadonlySet<string> = new Set(['select', 'with', 'values', 'table', 'explain', 'show'])

const refused = (cause?: unknown): AppError =>
  new AppError('insufficient_role', 'SQL of operators and viewers is read-only: what writes needs the role owner', {
    cause,
  })

/** The first query fixes that the transaction reads: from then on PostgreSQL refuses to make it one that writes. */
const BEGIN = 'begin transaction read only; select 1'

/**
 * Runs each statement in a transaction of its own that is read-only. Over the extended protocol PostgreSQL takes one statement
 * at a time, so none can end its transaction and begin another.
 */
export async function readStatements(client: pg.Client, script: string, keepsAll: boolean): Promise<ScriptResult[]> {
  const statements = splitScript(script)
  if (!statements.every(({ words: [first = ''] }) => READS.has(first))) throw refused()
  let results: ScriptResult[] = []
  for (const { text } of statements) {
    const kept = keepsAll ? keptBy(results) : undefined
    const result = await reading(client, () => executeSingle(client, text, kept))
    results = keepsAll ? [...results, result] : [result]
  }
  return results
}

/** The connection is not used again after a failure. */
export async function reading<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  try {
    await client.query(BEGIN)
    const result = await work()
    await client.query('rollback')
    return result
  } catch (error) {
    throw isReadOnly(error) ? refused(error) : error
  }
}
