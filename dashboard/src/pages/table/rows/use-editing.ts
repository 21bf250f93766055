import { useEffect, useRef, useState } from 'react'
import type { Table } from '../../../api/schema.ts'
import { failed } from '../../../parts/toast.tsx'
import { isInline } from './editors.tsx'
import type { Shown } from './shown-rows.ts'

type Editing = {
  /** The row itself: changes by others may move it while it is edited. */
  shown: Shown
  index: number
  column: string
  typed: string | undefined
  /** In a dialog, not in the cell. */
  whole: boolean
  value: unknown
}

type Wish = { index: number; column: string; typed: string | undefined }

type Rows = {
  table: Table
  /** Changes when the grid shows something else. */
  choice: unknown
  shownAt(index: number): Shown | undefined
  indexOf(key: string): number
  /** There is no row at this place, and none is to come. */
  isBeyond(index: number): boolean
  mayWrite(shown: Shown, column: string): boolean
  cellValue(shown: Shown, column: string): unknown
  /** Where the grid has only the beginning of a value. */
  isCut(shown: Shown, column: string): boolean
  readWhole(shown: Shown, column: string): Promise<unknown>
}

const isForeign = (table: Table, column: string): boolean =>
  table.foreignKeys?.some(({ columns }) => columns.length === 1 && columns[0] === column) ?? false

/** The cell that is edited. A row that is still to come is edited when it is there. */
export function useEditing(rows: Rows) {
  const { table, choice } = rows
  const [editing, setEditing] = useState<Editing | null>(null)
  const wish = useRef<Wish | null>(null)
  const turn = useRef(0)

  function open(shown: Shown, { index, column: id, typed }: Wish): void {
    const column = table.columns.find(({ name }) => name === id)
    if (!column) return
    const begin = (value: unknown): void =>
      setEditing({
        shown,
        index,
        column: id,
        typed,
        value,
        whole: !rows.mayWrite(shown, id) || !isInline(column, value) || (isForeign(table, id) && typed === undefined),
      })
    // At once wherever possible: the next key belongs to the editor.
    if (typed !== undefined || !rows.isCut(shown, id)) {
      begin(rows.cellValue(shown, id))
      return
    }
    const mine = turn.current
    rows.readWhole(shown, id).then((value) => mine === turn.current && begin(value), failed)
  }
  function edit(index: number, column: string, typed?: string): void {
    turn.current++
    const before = wish.current
    wish.current = null
    const shown = rows.shownAt(index)
    if (shown) {
      open(shown, { index, column, typed })
      return
    }
    const isSame = before?.index === index && before.column === column
    wish.current = { index, column, typed: isSame ? joined(before.typed, typed) : typed }
  }
  function close(): void {
    turn.current++
    setEditing(null)
  }
  useEffect(() => {
    const wanted = wish.current
    const shown = wanted && rows.shownAt(wanted.index)
    if (wanted && (shown || rows.isBeyond(wanted.index))) wish.current = null
    if (wanted && shown) open(shown, wanted)
  })
  useEffect(() => {
    wish.current = null
    turn.current++
  }, [choice])

  const moved = editing && rows.shownAt(editing.index)?.key !== editing.shown.key
  const at = moved ? rows.indexOf(editing.shown.key) : -1
  return { editing: editing && { ...editing, index: at < 0 ? editing.index : at }, edit, close }
}

const joined = (before: string | undefined, typed: string | undefined): string | undefined =>
  before === undefined ? typed : before + (typed ?? '')
