import type { ReactNode } from 'react'
import type { MenuItem } from '../menu.tsx'

export type GridColumn = {
  id: string
  title: string
  type?: string
  width: number
  pinned?: boolean
  /** Classes of its cells: `num`, `mono`. */
  look?: string
  sort?: 'ascending' | 'descending'
  menu?: () => MenuItem[]
}

export type GridCell = { value: unknown; look?: string; hint?: string; flash?: number }

export type Spot = { row: number; column: number }
/** Both ends are part of it. */
export type Range = { top: number; bottom: number; left: number; right: number }

export type GridProps<R> = {
  label: string
  columns: readonly GridColumn[]
  /** Rows that can be scrolled to; those not yet read are placeholders. */
  count: number
  /** All rows there are, where that is known. */
  total?: number | undefined
  rowAt(index: number): R | undefined
  cell(row: R, column: GridColumn): GridCell
  rowLook?(row: R): string
  onVisible?(first: number, last: number): void
  /** In front of each row. */
  gutter?: (row: R | undefined, index: number) => ReactNode
  corner?: ReactNode
  /** Begins to edit a cell, with what was typed instead of its value. */
  onEdit?(row: number, column: string, typed?: string): void
  editor?: { row: number; column: string; node: ReactNode } | null
  onPaste?(spot: Spot, cells: string[][]): void
  onClear?(range: Range): void
  onOpen?(row: number): void
  /** Shift and the space bar. */
  onMark?(row: number): void
  onSort?(column: string): void
  onResize?(column: string, width: number): void
  onMove?(column: string, before: string): void
  onActive?(spot: Spot, range: Range): void
  /** Where the focus goes, once for each object. */
  focused?: { row: number; column: string } | null
  /** Changes when the grid shows something else: back to its beginning. */
  resetKey?: string
  className?: string
}
