import { useQuery } from '@tanstack/react-query'
import { post } from './client.ts'
import { session } from './session.ts'

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

/** What a reading statement of the page itself answers. */
export function useSql(query: string | null, options: { every?: number; fresh?: number } = {}) {
  const { id } = session.use()
  return useQuery({
    queryKey: ['/api/admin/sql', query, id],
    queryFn: ({ signal }) => sql(query ?? '', { read_only: true }, signal),
    enabled: query !== null,
    staleTime: options.fresh ?? 10_000,
    ...(options.every && { refetchInterval: options.every }),
  })
}
