import type { VirtualItem } from '@tanstack/react-virtual'
import { memo, type ReactNode } from 'react'
import type { GridCell, GridColumn } from './types.ts'
import { Value } from './value.tsx'

export type RowProps<R> = {
  id: string
  index: number
  start: number
  width: number
  row: R | undefined
  pinned: readonly GridColumn[]
  loose: readonly GridColumn[]
  shown: readonly VirtualItem[]
  gutter: ((row: R | undefined, index: number) => ReactNode) | undefined
  gutterWidth: number
  cell(row: R, column: GridColumn): GridCell
  look: string
  /** The column that has the focus, or -1. */
  active: number
  left: number
  right: number
  /** Changes when what is drawn in the gutter does. */
  mark: unknown
}

function RowInner<R>(props: RowProps<R>) {
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
    <div
      role="row"
      aria-rowindex={index + 2}
      className={`grid-row ${props.look}`}
      style={{ transform: `translateY(${props.start}px)`, width: props.width }}
      data-row={index}
    >
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
    </div>
  )
}

export const Row = memo(RowInner) as typeof RowInner
