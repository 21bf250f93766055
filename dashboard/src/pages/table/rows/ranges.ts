import type { Table } from '../../../api/schema.ts'
import { plural } from '../../../parts/format.ts'
import type { GridColumn, Range, Spot } from '../../../parts/grid/types.ts'
import { toast } from '../../../parts/toast.tsx'
import { addRow, type EditStore, setCell } from './edits.ts'
import type { Shown, ShownRows } from './shown-rows.ts'
import { kindOf, parsePasted } from './values.ts'

type Given = {
  table: Table
  columns: readonly GridColumn[]
  rows: ShownRows
  store: EditStore
  mayWrite(shown: Shown): boolean
}

/** As the grid shows them. */
const inView = (columns: readonly GridColumn[]): GridColumn[] => [
  ...columns.filter(({ pinned }) => pinned),
  ...columns.filter(({ pinned }) => !pinned),
]

const columnOf = (table: Table, id: string) => table.columns.find((column) => column.name === id)

/** Cells of a spreadsheet, from here on to the right and down. A first line of names says which columns they are. */
export function pasteCells({ table, columns, rows, store, mayWrite }: Given, { row, column }: Spot, lines: string[][]) {
  const isHead = lines.length > 1 && (lines[0] ?? []).every((text) => columnOf(table, text) !== undefined)
  const targets = isHead
    ? (lines[0] ?? [])
    : inView(columns)
        .slice(column)
        .map(({ id }) => id)
  const made = store.get().created.length
  const failures: string[] = []
  let cells = 0
  for (const [offset, line] of (isHead ? lines.slice(1) : lines).entries()) {
    const at = row + offset
    // What is pasted into new rows goes on as new rows, not over those that were read.
    const shown = at < made || row >= made ? rows.shownAt(at) : undefined
    if (!shown && row >= made && !rows.isBeyond(at)) {
      failures.push(`line ${offset + 1}: the row is not read yet, scroll to it first`)
      continue
    }
    if (shown && !mayWrite(shown)) {
      failures.push(`line ${offset + 1}: the row cannot be changed`)
      continue
    }
    const key = shown?.key ?? addRow(store)
    for (const [position, text] of line.entries()) {
      const target = columnOf(table, targets[position] ?? '')
      // An empty cell of a new row means its default, and of a copied row what PostgreSQL gives stays behind.
      if (!target || target.isGenerated || (text === '' && !shown?.row)) continue
      try {
        setCell(store, key, target.name, parsePasted(target, text), shown?.row)
        cells++
      } catch (error) {
        failures.push(`line ${offset + 1}, ${target.name}: ${(error as Error).message}`)
      }
    }
  }
  if (failures.length > 0) toast(`Not everything was taken: ${failures[0]}`, { bad: true })
  else toast(`${plural(cells, 'cell')} pasted. Nothing is saved yet.`)
}

/** NULL where that is possible, an empty text where not; a cell of a new row is its default again. */
export function clearCells({ table, columns, rows, store, mayWrite }: Given, range: Range): void {
  for (let at = range.top; at <= range.bottom; at++) {
    const shown = rows.shownAt(at)
    if (!shown || !mayWrite(shown)) continue
    for (const { id } of inView(columns).slice(range.left, range.right + 1)) {
      const column = columnOf(table, id)
      if (!column || column.isGenerated) continue
      const empty = column.nullable ? null : kindOf(column) === 'text' ? '' : rows.cellValue(shown, id)
      setCell(store, shown.key, id, shown.row === undefined ? undefined : empty, shown.row)
    }
  }
}
