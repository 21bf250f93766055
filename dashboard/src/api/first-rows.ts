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

let ahead: { key: string; until: number; answer: Promise<RowsAnswer>; value?: RowsAnswer } | undefined
/** The list that the address names. */
let shown = ''

const keyOf = (name: string, query: object, core: Core): string =>
  JSON.stringify([name, query, core === dataCore ? session.get().id : viewAs.get()?.token])

/** The first page of a list that was not shown before: here already, or on its way. */
export function takeAhead(name: string, given: RowsQuery, core: Core): RowsAnswer | Promise<RowsAnswer> | undefined {
  const known = ahead
  ahead = undefined
  if (known?.key !== keyOf(name, queryOf(given), core) || performance.now() > known.until) return undefined
  return known.value ?? known.answer
}

export const readRows = (name: string, query: RowsQuery, core: Core, signal: AbortSignal): Promise<RowsAnswer> =>
  send<RowsAnswer>('GET', pathOf(name), { query: queryOf(query) }, { signal }, core)

/**
 * While the page of a table is still drawn, its first rows are on their way. `isGuess`: the pointer or the focus rests on a
 * link to it; what may take long, as a view may, is then not read.
 */
export function readAhead(name: string, filter: string, sort: string, isGuess: boolean): void {
  const list = JSON.stringify([name, filter, sort])
  if (shown === list) return
  if (!isGuess) shown = list
  const { id, token } = session.get()
  const schema = queries.getQueryData<SchemaAnswer>(['/api/schema', {}, id])
  const table = Object.values(schema?.tables ?? {}).find((one) => tableName(one, schema?.schemas[0]) === name)
  if (!table || !token || (isGuess && table.primaryKey.length === 0)) return
  const core = viewAs.get()?.core ?? dataCore
  const query = queryOf({ filter, sort, place: firstPlace(table), isFirst: true })
  const key = keyOf(name, query, core)
  if (ahead?.key === key && performance.now() < ahead.until) return
  const answer = send<RowsAnswer>('GET', pathOf(name), { query }, {}, core)
  const mine: typeof ahead = { key, until: performance.now() + FRESH_MS, answer }
  ahead = mine
  answer.then(
    (value) => {
      mine.value = value
    },
    // The grid that takes it hears of a failure.
    () => undefined,
  )
}

export function forgetAhead(): void {
  ahead = undefined
  shown = ''
}
