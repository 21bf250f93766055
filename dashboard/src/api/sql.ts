import { post } from './client.ts'

export type SqlResult = {
  columns: string[]
  rows: unknown[][]
  rowCount: number
  durationMs: number
  command?: string
  message?: string
}

/** A statement of the page itself. */
export const sql = (query: string, options: { read_only?: boolean } = {}, signal?: AbortSignal): Promise<SqlResult> =>
  post('/api/admin/sql', { query, ...options }, signal ? { signal } : {})
