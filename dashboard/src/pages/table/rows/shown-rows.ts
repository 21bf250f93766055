import { useCallback, useMemo, useRef } from 'react'
import type { Table } from '../../../api/schema.ts'
import type { GridCell, GridColumn } from '../../../parts/grid/types.ts'
import type { Edits } from './edits.ts'
import type { RowData, RowPages } from './row-pages.ts'
import { idOf } from './save.ts'
import type { Flashes } from './use-rows.ts'
import { kindOf, shownValue } from './values.ts'

/** A row as it is shown: read, or new. */
export type Shown = { key: string; row: RowData | undefined }

/** Several screens of rows. */
const REMEMBERED = 500

type Given = { table: Table; pages: RowPages; edits: Edits; flashes: Flashes }

/** New rows, then those that were read, each with what was changed in it. */
export function useShownRows({ table, pages, edits, flashes }: Given) {
  const made = edits.created
  const hasKey = table.primaryKey.length > 0
  // The same for the same row, so that the grid draws only what changed.
  const known = useRef(new Map<object, Shown>())
  const sameShown = (of: object, key: string, row: RowData | undefined): Shown => {
    const before = known.current.get(of)
    if (before?.key === key) return before
    const shown = { key, row }
    // A weak map of all rows that were ever seen would cost the collector more than these cost to make.
    if (known.current.size >= REMEMBERED) known.current.clear()
    known.current.set(of, shown)
    return shown
  }
  const shownAt = (index: number): Shown | undefined => {
    const fresh = made[index]
    if (fresh) return sameShown(fresh, fresh.id, undefined)
    const row = pages.at(index - made.length)
    return row && sameShown(row, hasKey ? idOf(table, row) : `row ${index}`, row)
  }
  const indexOf = (key: string): number => {
    const fresh = made.findIndex(({ id }) => id === key)
    const at = fresh < 0 && hasKey ? pages.indexOf((row) => idOf(table, row) === key) : -1
    return at < 0 ? fresh : made.length + at
  }
  const cellValue = useCallback(
    ({ key, row }: Shown, column: string): unknown => {
      const values = row ? edits.updated.get(key)?.values : edits.created.find(({ id }) => id === key)?.values
      if (values?.has(column)) return values.get(column)
      return row && Object.hasOwn(row, column) ? row[column] : undefined
    },
    [edits],
  )
  const writtenAsJson = useMemo(
    () =>
      new Map(
        table.columns.flatMap((one) => (['json', 'array'].includes(kindOf(one)) ? [[one.name, one] as const] : [])),
      ),
    [table],
  )
  const cell = useCallback(
    (shown: Shown, { id }: GridColumn): GridCell => {
      const value = cellValue(shown, id)
      const problem = edits.problems.get(shown.key)
      const isBad = problem?.columns.includes(id)
      const isEdited = shown.row ? edits.updated.get(shown.key)?.values.has(id) : value !== undefined
      const flash = flashes.get(shown.key)
      const isFlashing = flash?.columns.has(id)
      const json = writtenAsJson.get(id)
      const isDefault = shown.row === undefined && value === undefined
      return {
        value: isDefault ? '⟨default⟩' : json && !isCutIn(shown.row, id) ? shownValue(json, value) : value,
        look: `${isBad ? 'bad ' : ''}${isEdited ? 'edited' : ''}`,
        ...(isBad && problem && { hint: problem.message }),
        ...(isFlashing && flash && { flash: flash.turn }),
      }
    },
    [edits, flashes, cellValue, writtenAsJson],
  )
  return {
    count: made.length + pages.count,
    shownAt,
    indexOf,
    cellValue,
    cell,
    /** There is no row at this place, and none is to come. */
    isBeyond: (index: number): boolean => pages.isWhole && index >= made.length + pages.read,
    isCut: ({ key, row }: Shown, column: string): boolean =>
      isCutIn(row, column) && !edits.updated.get(key)?.values.has(column),
  }
}

function isCutIn(row: RowData | undefined, column: string): boolean {
  const cut = row?.['_cut']
  return Array.isArray(cut) && cut.includes(column)
}

export type ShownRows = ReturnType<typeof useShownRows>
