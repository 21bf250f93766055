import type { VirtualItem } from '@tanstack/react-virtual'
import { memo, type ReactNode } from 'react'
import type { GridCell, GridColumn } from './types.ts'
import { Value } from './value.tsx'

type CellsProps<R> = {
  id: string
  index: number
  row: R | undefined
  pinned: readonly GridColumn[]
  loose: readonly GridColumn[]
  shown: readonly VirtualItem[]
  gutter: ((row: R | undefined, index: number) => ReactNode) | undefined
  gutterWidth: number
  cell(row: R, column: GridColumn): GridCell
  /** The column that has the focus, or -1. */
  active: number
  left: number
  right: number
}

export type RowProps<R> = CellsProps<R> & { start: number; width: number; look: string }

/** Its place changes with every step where the scrollbar is scaled, its cells do not. */
export function Row<R>({ start, width, look, ...cells }: RowProps<R>) {
  const { index } = cells
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className={`grid-row ${look}`}
      style={{ transform: `translateY(${start}px)`, width }}
      data-row={index}
    >
      <Cells {...cells} />
    </div>
  )
}

function CellsInner<R>(props: CellsProps<R>) {
  const { id, index, row, pinned, loose, shown, gutter, gutterWidth, active } = props
  let offset = gutterWidth
  const draw = (column: GridColumn, position: number, place: { left: number; width: number }, isPinned: boolean) => {
    const cell = row === undefined ? null : props.cell(row, column)
    const isPicked = position >= props.left && position <= props.right
    const looks = [
      'grid-cell',
      column.look,
      cell?.look,
      isPinned && 'pinned',
      isPicked && 'picked',
      position === active && 'active',
      cell?.flash && 'flash',
    ]
    return (
      <div
        key={column.id}
        id={`${id}-${index}-${position}`}
        role="gridcell"
        aria-colindex={position + (gutter ? 2 : 1)}
        aria-selected={isPicked || undefined}
        tabIndex={position === active ? 0 : -1}
        className={looks.filter(Boolean).join(' ')}
        style={{ left: place.left, width: place.width }}
        title={cell?.hint}
        data-column={column.id}
      >
        {cell?.flash !== undefined && <span key={cell.flash} className="grid-flash" />}
        {cell ? <Value value={cell.value} /> : <span className="skeleton" />}
      </div>
    )
  }
  return (
    <>
      {gutter && (
        <div
          role="gridcell"
          aria-colindex={1}
          className="grid-cell pinned grid-gutter"
          style={{ left: 0, width: gutterWidth }}
        >
          {gutter(row, index)}
        </div>
      )}
      {pinned.map((column, position) => {
        const left = offset
        offset += column.width
        return draw(column, position, { left, width: column.width }, true)
      })}
      {shown.map(({ index: at, start, size }) => {
        const column = loose[at]
        return column && draw(column, pinned.length + at, { left: start, width: size }, false)
      })}
    </>
  )
}

const Cells = memo(CellsInner) as typeof CellsInner
