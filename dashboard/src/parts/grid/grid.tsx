import {
  defaultRangeExtractor,
  useVirtualizer,
  type Virtualizer,
  type Range as VirtualRange,
} from '@tanstack/react-virtual'
import {
  type MouseEvent,
  useCallback,
  useEffect,
  useEffectEvent,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import { Header } from './header.tsx'
import { keyAction } from './keys.ts'
import { Row } from './row.tsx'
import { fromTsv, toTsv } from './tsv.ts'
import type { GridProps, Range, Spot } from './types.ts'
import { useScaledRows } from './use-scaled-rows.ts'
import { useSlots } from './use-slots.ts'

const ROW = 33
const HEAD = 36
const GUTTER = 46
const COPIED_ROWS = 20_000

/** Rows that stay where they are kept, of which only those in view are in the page. One cell has the focus (WAI-ARIA grid). */
export function Grid<R>(props: GridProps<R>) {
  const { columns, gutter, editor, count } = props
  const id = useId()
  const box = useRef<HTMLDivElement>(null)
  const pinned = useMemo(() => columns.filter((column) => column.pinned), [columns])
  const loose = useMemo(() => columns.filter((column) => !column.pinned), [columns])
  const ordered = useMemo(() => [...pinned, ...loose], [pinned, loose])
  const [spot, setSpot] = useState<Spot>({ row: 0, column: 0 })
  const [anchor, setAnchor] = useState<Spot>(spot)
  const wantsFocus = useRef<Spot | null>(null)

  const row = Math.min(spot.row, Math.max(0, count - 1))
  const column = Math.min(spot.column, Math.max(0, ordered.length - 1))
  const range: Range = {
    top: Math.min(row, anchor.row),
    bottom: Math.max(row, anchor.row),
    left: Math.min(column, anchor.column),
    right: Math.max(column, anchor.column),
  }
  const gutterWidth = gutter ? GUTTER : 0
  const pinnedWidth = pinned.reduce((sum, { width }) => sum + width, gutterWidth)

  // The cell with the focus stays in the page, and the one that is edited.
  const rows = useScaledRows({
    box,
    count,
    rowHeight: ROW,
    headHeight: HEAD,
    kept: editor ? [row, editor.row] : [row],
  })
  const slots = useSlots(rows.indices)
  // The same as long as it gives the same: rows compare what it gives by identity.
  const rangeExtractor = useCallback(
    (seen: VirtualRange) => withIndex(defaultRangeExtractor(seen), column - pinned.length, loose.length),
    [column, pinned, loose],
  )
  const across = useVirtualizer({
    horizontal: true,
    count: loose.length,
    getScrollElement: () => box.current,
    estimateSize: (index) => loose[index]?.width ?? 120,
    overscan: 3,
    paddingStart: pinnedWidth,
    scrollPaddingStart: pinnedWidth,
    rangeExtractor,
    observeElementOffset: observeSideways,
  })
  const remeasure = useEffectEvent(() => across.measure())
  useLayoutEffect(() => remeasure(), [columns])

  const shown = across.getVirtualItems()
  const { first, last } = rows
  const seen = useEffectEvent(() => props.onVisible?.(first, last))
  useEffect(() => seen(), [first, last, count])

  const { resetKey } = props
  useEffect(() => {
    rows.scrollTo(0)
    wantsFocus.current = null
    setSpot({ row: 0, column: 0 })
    setAnchor({ row: 0, column: 0 })
  }, [resetKey])

  function show(at: Spot): void {
    rows.scrollToIndex(at.row)
    if (at.column >= pinned.length) across.scrollToIndex(at.column - pinned.length)
  }

  function go(to: Spot, extend = false): Spot {
    const next = {
      row: Math.max(0, Math.min(count - 1, to.row)),
      column: Math.max(0, Math.min(ordered.length - 1, to.column)),
    }
    setSpot(next)
    if (!extend) setAnchor(next)
    wantsFocus.current = next
    const from = extend ? anchor : next
    props.onActive?.(next, {
      top: Math.min(next.row, from.row),
      bottom: Math.max(next.row, from.row),
      left: Math.min(next.column, from.column),
      right: Math.max(next.column, from.column),
    })
    return next
  }

  const { focused } = props
  const goToFocused = useEffectEvent(() => {
    if (focused)
      show(
        go({
          row: focused.row,
          column: Math.max(
            0,
            ordered.findIndex((c) => c.id === focused.column),
          ),
        }),
      )
  })
  useEffect(() => goToFocused(), [focused])

  useEffect(() => {
    const wanted = wantsFocus.current
    // An earlier drawing, of rows that came meanwhile, knows the cell before.
    if (editor || wanted?.row !== row || wanted.column !== column) return
    wantsFocus.current = null
    document.getElementById(`${id}-${row}-${column}`)?.focus({ preventScroll: true })
  })
  // Back from an editor the cell has the focus again.
  const edits = editor !== null && editor !== undefined
  const before = useRef(edits)
  const showEdited = useEffectEvent(() => {
    const at = editor ? ordered.findIndex((c) => c.id === editor.column) : -1
    if (editor && at >= 0) show({ row: editor.row, column: at })
  })
  useEffect(() => {
    if (edits) showEdited()
  }, [edits])
  useEffect(() => {
    if (before.current && !edits) document.getElementById(`${id}-${row}-${column}`)?.focus({ preventScroll: true })
    before.current = edits
  }, [edits, id, row, column])

  function spotOf(event: MouseEvent): Spot | null {
    const cell = (event.target as HTMLElement).closest<HTMLElement>('[data-column]')
    const parts = cell?.id.slice(id.length + 1).split('-')
    return parts?.length === 2 ? { row: Number(parts[0]), column: Number(parts[1]) } : null
  }

  const valuesOf = (index: number): unknown[] => {
    const found = props.rowAt(index)
    return found === undefined ? [] : ordered.slice(range.left, range.right + 1).map((c) => props.cell(found, c).value)
  }

  const width = across.getTotalSize()
  // Reckoned, not measured: an editor stays whatever happens to the cells below it.
  const editedAt = editor ? ordered.findIndex((c) => c.id === editor.column) : -1
  const edited = ordered[editedAt]
  const editorPlace = editor &&
    edited && {
      left:
        ordered.slice(0, editedAt).reduce((sum, c) => sum + c.width, gutterWidth) +
        (edited.pinned ? (box.current?.scrollLeft ?? 0) : 0),
      top: rows.topOf(editor.row),
      width: Math.max(edited.width, 120),
      minHeight: ROW,
    }
  return (
    <div
      ref={box}
      role="grid"
      aria-label={props.label}
      aria-rowcount={props.total === undefined ? -1 : props.total + 1}
      aria-colcount={ordered.length + (gutter ? 1 : 0)}
      aria-multiselectable="true"
      tabIndex={count === 0 ? 0 : -1}
      className={`grid ${props.className ?? ''}`}
      onMouseDown={(event) => {
        const at = spotOf(event)
        if (!at || editor) return
        // It is under the pointer: a grid that moved now would give the second half of a double click to another cell.
        go(at, event.shiftKey)
        event.preventDefault()
      }}
      onMouseOver={(event) => {
        const at = event.buttons === 1 ? spotOf(event) : null
        if (!at || editor || (at.row === row && at.column === column)) return
        go(at, true)
        show(at)
      }}
      onFocus={() => undefined}
      onDoubleClick={(event) => {
        const at = spotOf(event)
        const found = at && ordered[at.column]
        if (found) props.onEdit?.(at.row, found.id)
      }}
      onKeyDown={(event) => {
        if (editor || !(event.target as HTMLElement).closest('[data-column]')) return
        const page = Math.max(1, Math.floor(((box.current?.clientHeight ?? 400) - HEAD) / ROW) - 1)
        const action = keyAction(event, { row, column }, { page, count, columns: ordered.length })
        if (!action) return
        const name = ordered[column]?.id
        if (action.kind === 'type' && !props.onEdit) return
        event.preventDefault()
        if (action.kind === 'go') show(go(action.to, event.shiftKey))
        else if (action.kind === 'all') {
          setAnchor({ row: 0, column: 0 })
          setSpot({ row: count - 1, column: ordered.length - 1 })
        } else if (action.kind === 'open') props.onOpen?.(row)
        else if (action.kind === 'mark') props.onMark?.(row)
        else if (action.kind === 'clear') props.onClear?.(range)
        else if (name !== undefined) props.onEdit?.(row, name, action.kind === 'type' ? action.text : undefined)
      }}
      onCopy={(event) => {
        if (editor) return
        const lines = Array.from({ length: Math.min(COPIED_ROWS, range.bottom - range.top + 1) }, (_, i) =>
          valuesOf(range.top + i),
        )
        event.clipboardData.setData('text/plain', toTsv(lines))
        event.preventDefault()
      }}
      onPaste={(event) => {
        if (editor || !props.onPaste) return
        event.preventDefault()
        props.onPaste({ row: range.top, column: range.left }, fromTsv(event.clipboardData.getData('text/plain')))
      }}
    >
      <Header
        width={width}
        pinned={pinned}
        loose={loose}
        shown={shown}
        corner={props.corner}
        gutterWidth={gutterWidth}
        onSort={props.onSort}
        onResize={props.onResize}
        onMove={props.onMove}
      />
      <div className="grid-body" role="presentation" style={{ height: rows.height, width }}>
        {rows.indices.map((index) => {
          const found = props.rowAt(index)
          const isIn =
            index >= range.top && index <= range.bottom && (range.top !== range.bottom || range.left !== range.right)
          return (
            <Row
              key={slots.get(index)}
              id={id}
              index={index}
              start={rows.topOf(index)}
              width={width}
              row={found}
              pinned={pinned}
              loose={loose}
              shown={shown}
              gutter={gutter}
              gutterWidth={gutterWidth}
              cell={props.cell}
              look={found === undefined ? '' : (props.rowLook?.(found) ?? '')}
              active={index === row ? column : -1}
              left={isIn ? range.left : 1}
              right={isIn ? range.right : 0}
            />
          )
        })}
        {editor && editorPlace && (
          <div className="grid-editor" style={editorPlace}>
            {editor.node}
          </div>
        )}
      </div>
    </div>
  )
}

/** Of columns: rows scroll by themselves, and would draw the grid twice at every step. */
function observeSideways(
  { scrollElement }: Virtualizer<HTMLDivElement, Element>,
  moved: (offset: number, isScrolling: boolean) => void,
): (() => void) | undefined {
  if (!scrollElement) return
  let before = scrollElement.scrollLeft
  moved(before, false)
  const onScroll = (): void => {
    const { scrollLeft } = scrollElement
    if (scrollLeft === before) return
    before = scrollLeft
    moved(scrollLeft, true)
  }
  const onEnd = (): void => moved(before, false)
  scrollElement.addEventListener('scroll', onScroll, { passive: true })
  scrollElement.addEventListener('scrollend', onEnd, { passive: true })
  return () => {
    scrollElement.removeEventListener('scroll', onScroll)
    scrollElement.removeEventListener('scrollend', onEnd)
  }
}

function withIndex(seen: number[], index: number, count: number): number[] {
  if (index < 0 || index >= count || seen.includes(index)) return seen
  return [...seen, index].sort((a, b) => a - b)
}
