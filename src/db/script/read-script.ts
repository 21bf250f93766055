import type pg from 'pg'
import { badRequest } from '../../core/errors.ts'
import { executeSingle, keptBy, type ScriptResult } from './execute.ts'
import { splitScript, untriable } from './split.ts'

/** The first query fixes that the transaction reads: from then on PostgreSQL refuses to make it one that writes. */
const BEGIN = 'begin transaction read only; select 1'

/**
 * Runs the statements in one transaction that only reads. They are sent one by one over the extended protocol, where PostgreSQL
 * takes no two at a time, so that none can end the transaction and begin another.
 */
export async function readScript(client: pg.Client, script: string, keepsAll: boolean): Promise<ScriptResult[]> {
  const statements = splitScript(script)
  for (const statement of statements) {
    const reason = untriable(statement, 'read-only SQL')
    if (reason !== undefined) throw badRequest(reason, 'sql_error')
  }
  await client.query(BEGIN)
  let results: ScriptResult[] = []
  for (const { text } of statements) {
    const result = await executeSingle(client, text, keepsAll ? keptBy(results) : undefined)
    results = keepsAll ? [...results, result] : [result]
  }
  return results
}
