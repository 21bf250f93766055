import type { Core } from 'savanna-client/core'
import { dataCore, queries, send } from './client.ts'
import { type Answer as SchemaAnswer, type Table, tableName } from './schema.ts'
import { session } from './session.ts'
import { viewAs } from './view-as.ts'

export const PER_PAGE = 200
/** Longer values are cut in the grid and read whole when they are opened. */
const CUT = 500
/** What was read ahead and not used for so long is read again. */
const FRESH_MS = 3_000

export type RowsAnswer = {
  items: Record<string, unknown>[]
  nextCursor?: string | null
  totalItems?: number
  totalIsEstimate?: boolean
}
export type RowsQuery = { filter: string; sort: string; place: object; isFirst: boolean }

const pathOf = (name: string): string => `/api/collections/${encodeURIComponent(name)}`
const queryOf = ({ filter, sort, place, isFirst }: RowsQuery) => ({
  ...place,
  perPage: PER_PAGE,
  total: isFirst ? 'estimate' : 'none',
  cut: CUT,
  filter: filter || undefined,
  sort: sort || undefined,
})

/** Where a list begins: by cursor, or by pages where there is no key. */
export const firstPlace = (table: Table): { cursor: string } | { page: number } =>
  table.primaryKey.length > 0 ? { cursor: '' } : { page: 1 }

let ahead: { key: string; until: number; answer: Promise<RowsAnswer> } | undefined
/** The list that the address names. */
let shown = ''

const keyOf = (name: string, query: object, core: Core): string =>
  JSON.stringify([name, query, core === dataCore ? session.get().id : viewAs.get()?.token])

/** A page of rows. `isNew`: of a list that was not shown before; its first page may be on its way already. */
export function readRows(
  name: string,
  given: RowsQuery,
  { core, signal, isNew }: { core: Core; signal: AbortSignal; isNew: boolean },
): Promise<RowsAnswer> {
  const query = queryOf(given)
  const known = ahead
  ahead = undefined
  if (isNew && known && known.key === keyOf(name, query, core) && performance.now() < known.until) return known.answer
  return send<RowsAnswer>('GET', pathOf(name), { query }, { signal }, core)
}

/** While the page of a table is still drawn, its first rows are on their way. */
export function readAhead(name: string, filter: string, sort: string): void {
  const list = JSON.stringify([name, filter, sort])
  if (shown === list) return
  shown = list
  const { id, token } = session.get()
  const schema = queries.getQueryData<SchemaAnswer>(['/api/schema', {}, id])
  const table = Object.values(schema?.tables ?? {}).find((one) => tableName(one, schema?.schemas[0]) === name)
  if (!table || !token) return
  const core = viewAs.get()?.core ?? dataCore
  const query = queryOf({ filter, sort, place: firstPlace(table), isFirst: true })
  const answer = send<RowsAnswer>('GET', pathOf(name), { query }, {}, core)
  // The grid that takes it hears of a failure.
  answer.catch(() => undefined)
  ahead = { key: keyOf(name, query, core), until: performance.now() + FRESH_MS, answer }
}

export function forgetAhead(): void {
  ahead = undefined
  shown = ''
}
