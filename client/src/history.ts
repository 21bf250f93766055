import { type CallOptions, type Core, keyText, segment } from './core.ts'

/** A change of a row, as far as the caller may see it. */
export type PastChange = {
  id: string
  transaction: string
  /** RFC 3339 */
  at: string
  action: 'create' | 'update' | 'delete'
  table: string
  key: unknown
  actor: unknown
  request_id: string | null
  undoes?: unknown
  changes: Record<string, { old?: unknown; new?: unknown }>
}

export type PastChanges = { items: PastChange[]; perPage: number; nextCursor: string | null }

/** What became of rows, newest first, where the operator has opened the history of their table. */
export const createHistory = (core: Core) => ({
  history: (
    table: string,
    key: unknown,
    query: { perPage?: number; cursor?: string } = {},
    call?: CallOptions,
  ): Promise<PastChanges> =>
    core.send('GET', `/api/collections/${segment(table)}/${keyText(key) || '.'}/history`, { query }, call),
})
