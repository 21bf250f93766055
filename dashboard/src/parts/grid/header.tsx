import type { VirtualItem } from '@tanstack/react-virtual'
import { type PointerEvent, type ReactNode, useState } from 'react'
import { visible } from '../format.ts'
import { Icon } from '../icon.tsx'
import { type MenuItem, MenuList } from '../menu.tsx'
import type { GridColumn } from './types.ts'

export type HeaderProps = {
  width: number
  pinned: readonly GridColumn[]
  loose: readonly GridColumn[]
  shown: readonly VirtualItem[]
  corner: ReactNode
  gutterWidth: number
  onSort: ((column: string) => void) | undefined
  onResize: ((column: string, width: number) => void) | undefined
  onMove: ((column: string, before: string) => void) | undefined
}

export function Header(props: HeaderProps) {
  const { pinned, loose, shown, gutterWidth, corner } = props
  const [menu, setMenu] = useState<{ items: MenuItem[]; at: DOMRect; label: string } | null>(null)
  let offset = gutterWidth
  const draw = (column: GridColumn, position: number, left: number, isPinned: boolean) => (
    <div
      key={column.id}
      role="columnheader"
      aria-colindex={position + (gutterWidth ? 2 : 1)}
      aria-sort={column.sort}
      className={isPinned ? 'grid-head-cell pinned' : 'grid-head-cell'}
      style={{ left, width: column.width }}
      draggable={props.onMove !== undefined}
      onDragStart={(event) => event.dataTransfer.setData('application/x-column', column.id)}
      onDragOver={(event) => {
        if (event.dataTransfer.types.includes('application/x-column')) event.preventDefault()
      }}
      onDrop={(event) => {
        const moved = event.dataTransfer.getData('application/x-column')
        if (moved && moved !== column.id) props.onMove?.(moved, column.id)
      }}
    >
      <button
        type="button"
        className="name isolate"
        tabIndex={-1}
        title={column.type ? `${column.title} (${column.type})` : column.title}
        onClick={() => props.onSort?.(column.id)}
      >
        {visible(column.title)}
      </button>
      {column.type && <span className="type">{column.type}</span>}
      {column.sort && <Icon name={column.sort === 'ascending' ? 'up' : 'down'} size={13} />}
      {column.menu && (
        <button
          type="button"
          className="column-menu"
          tabIndex={-1}
          aria-label={`Column ${column.title}`}
          aria-haspopup="menu"
          onClick={(event) =>
            setMenu({
              items: column.menu?.() ?? [],
              at: event.currentTarget.getBoundingClientRect(),
              label: column.title,
            })
          }
        >
          <Icon name="down" size={13} />
        </button>
      )}
      {props.onResize && <Resize column={column} onResize={props.onResize} />}
    </div>
  )
  return (
    <div role="row" aria-rowindex={1} className="grid-header" style={{ width: props.width, display: 'flex' }}>
      {gutterWidth > 0 && (
        <div
          role="columnheader"
          aria-colindex={1}
          className="grid-head-cell pinned grid-corner"
          style={{ left: 0, width: gutterWidth }}
        >
          {corner ?? <span className="visually-hidden">Row</span>}
        </div>
      )}
      {pinned.map((column, position) => {
        const left = offset
        offset += column.width
        return draw(column, position, left, true)
      })}
      {shown.map(({ index, start }) => {
        const column = loose[index]
        return column && draw(column, pinned.length + index, start, false)
      })}
      {menu && <MenuList label={menu.label} items={menu.items} at={menu.at} onClose={() => setMenu(null)} />}
    </div>
  )
}

function Resize({ column, onResize }: { column: GridColumn; onResize(column: string, width: number): void }) {
  const begin = (event: PointerEvent<HTMLElement>): void => {
    event.preventDefault()
    event.stopPropagation()
    const handle = event.currentTarget
    const from = event.clientX - column.width
    handle.setPointerCapture(event.pointerId)
    handle.onpointermove = (move) => onResize(column.id, Math.max(48, Math.min(1200, move.clientX - from)))
    handle.onpointerup = () => {
      handle.onpointermove = null
    }
  }
  return <span className="resize" onPointerDown={begin} draggable={false} aria-hidden="true" />
}
