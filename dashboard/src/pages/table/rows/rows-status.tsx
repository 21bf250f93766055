import { plural } from '../../../parts/format.ts'
import { Button } from '../../../parts/ui.tsx'
import type { RowPages } from './row-pages.ts'

type StatusProps = {
  pages: RowPages
  isLive: boolean
  hasKey: boolean
  canAdd: boolean
  /** Rows that can be deleted together. */
  marked: number
  onDelete(): void
}

/** How many rows there are, and what can be done with them. */
export function RowsStatus({ pages, isLive, hasKey, canAdd, marked, onDelete }: StatusProps) {
  const { total } = pages
  return (
    <>
      <span>
        {total === undefined || total < 0
          ? plural(pages.read, 'row') + (pages.isWhole ? '' : ' so far')
          : `${pages.isEstimate ? 'about ' : ''}${plural(total, 'row')}`}
      </span>
      {isLive && (
        <span className="badge ok">
          <span aria-hidden="true">●</span> live
        </span>
      )}
      {!hasKey && <span>No primary key: rows can be read{canAdd ? ' and added' : ''}, not changed.</span>}
      <span className="grow" />
      {marked > 0 && (
        <Button look="small danger" icon="trash" onClick={onDelete}>
          {`Delete ${plural(marked, 'row')}`}
        </Button>
      )}
      <span className="muted wide-only">Space opens a row, Shift Space marks it, Enter edits</span>
    </>
  )
}
