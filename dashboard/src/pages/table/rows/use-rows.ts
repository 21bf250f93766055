import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import { connection } from '../../../api/client.ts'
import { firstPlace, PER_PAGE, type RowsAnswer, readRows, takeAhead } from '../../../api/first-rows.ts'
import type { Table } from '../../../api/schema.ts'
import { useData } from '../../../api/view-as.ts'
import { type Loaded, type RowData, RowPages } from './row-pages.ts'
import { idOf } from './save.ts'

export type Choice = { filter: string; sort: string }

/** What a change by others touched, and until when it is shown. */
export type Flashes = ReadonlyMap<string, { columns: ReadonlySet<string>; turn: number }>

export function useRows(name: string, table: Table, { filter, sort }: Choice) {
  const { core, realtime, key } = useData()
  const [turn, setTurn] = useState(0)
  const [flashes, setFlashes] = useState<Flashes>(new Map())
  const [isLive, setLive] = useState(false)
  const hasKey = table.primaryKey.length > 0
  const pages = useRef<RowPages | null>(null)
  const identity = JSON.stringify([name, filter, sort, key])
  const known = useRef('')
  if (known.current !== identity) {
    known.current = identity
    pages.current?.stop()
    const first = { filter, sort, place: firstPlace(table), isFirst: true }
    const loadedOf = (answer: RowsAnswer, token: string): Loaded => {
      const next = hasKey
        ? (answer.nextCursor ?? null)
        : answer.items.length < PER_PAGE
          ? null
          : String(Number(token) + 1)
      return { items: answer.items, next, total: answer.totalItems, isEstimate: answer.totalIsEstimate }
    }
    const ahead = takeAhead(name, first, core)
    let onItsWay = ahead instanceof Promise ? ahead : undefined
    const load = async (token: string, isFirst: boolean, signal: AbortSignal): Promise<Loaded> => {
      const known = onItsWay
      onItsWay = undefined
      const place = hasKey ? { cursor: token } : { page: Number(token) }
      const query = isFirst ? first : { filter, sort, place, isFirst }
      return loadedOf(await (known ?? readRows(name, query, core, signal)), token)
    }
    const token = hasKey ? '' : '1'
    const loaded = ahead && !(ahead instanceof Promise) ? loadedOf(ahead, token) : undefined
    pages.current = new RowPages(token, load, () => setTurn((before) => before + 1), loaded)
  }
  const current = pages.current as RowPages

  // Before anything is painted: the way of the first rows is the way of this call.
  useLayoutEffect(() => current.need(0, PER_PAGE / 2), [identity])
  useEffect(() => {
    if (!hasKey) return
    return follow(realtime, name, table, current, {
      onFlash: setFlashes,
      onChange: () => setTurn((before) => before + 1),
      onLive: setLive,
    })
  }, [identity])
  // What failed while the server or its database was away is read when they are back.
  const lost = connection.use()
  useEffect(() => {
    if (lost === null && current.error) void current.refresh()
  }, [lost, current])
  return { pages: current, turn, flashes, isLive, core, hasKey }
}

type Watcher = { onFlash(flashes: Flashes): void; onChange(): void; onLive(isLive: boolean): void }

/** Changes by others: shown rows change in their place, new ones come with the next look; at most one of each a moment. */
function follow(
  realtime: ReturnType<typeof useData>['realtime'],
  name: string,
  table: Table,
  pages: RowPages,
  on: Watcher,
): () => void {
  let flashes = new Map<string, { columns: Set<string>; turn: number }>()
  let waiting: RowData[] = []
  let needsLook = false
  let timer: ReturnType<typeof setTimeout> | undefined
  let turn = 0

  async function apply(): Promise<void> {
    timer = undefined
    const changed = new Map(waiting.map((row) => [idOf(table, row), row]))
    waiting = []
    turn++
    const next = new Map([...flashes].filter(([, flash]) => flash.turn > turn - 3))
    for (const [id, row] of changed) {
      const columns = new Set<string>()
      const isShown = pages.patch(
        (shown) => idOf(table, shown) === id,
        (shown) => {
          for (const column of Object.keys(row))
            if (JSON.stringify(shown[column]) !== JSON.stringify(row[column])) columns.add(column)
          return { ...shown, ...row }
        },
      )
      if (!isShown) needsLook = true
      for (const column of isShown ? columns : Object.keys(row)) columns.add(column)
      if (columns.size > 0) next.set(id, { columns, turn })
    }
    flashes = next
    on.onFlash(next)
    on.onChange()
    if (needsLook) {
      needsLook = false
      await pages.refresh()
    }
  }
  const soon = (): void => {
    timer ??= setTimeout(() => void apply(), 250)
  }
  const end = realtime.watch(name, undefined, {
    onChange({ action, record }) {
      if (action === 'delete') needsLook = true
      else waiting.push(record as RowData)
      soon()
    },
    onReset() {
      needsLook = true
      soon()
    },
    onStatus(status) {
      on.onLive(status === 'live')
      if (status !== 'live') return
      // The rows were read before: what changed in between was not heard.
      needsLook = true
      soon()
    },
  })
  return () => {
    clearTimeout(timer)
    end()
  }
}
