import type pg from 'pg'
import type { ScriptResult } from './execute.ts'
import { toJsonRows } from './json-rows.ts'

export type WrittenResult = ScriptResult & {
  /** The JSON text of each row. */
  readonly jsonRows: readonly string[]
}

export async function withJson(client: pg.Client, results: readonly ScriptResult[]): Promise<WrittenResult[]> {
  const written: WrittenResult[] = []
  for (const result of results) {
    written.push({ ...result, jsonRows: await toJsonRows(client, result.fields, result.rows ?? []) })
  }
  return written
}
