import { useCallback, useEffect, useMemo, useState } from 'react'
import { confirm } from '../../../parts/dialog.tsx'
import { plural } from '../../../parts/format.ts'
import { Button } from '../../../parts/ui.tsx'
import { type EditStore, markDeleted } from './edits.ts'
import type { RowData } from './row-pages.ts'
import type { Shown } from './shown-rows.ts'

/** Rows that are marked, to be deleted together. */
export function useMarked(store: EditStore, choice: unknown) {
  const [marked, setMarked] = useState<ReadonlyMap<string, RowData | undefined>>(new Map())
  useEffect(() => setMarked(new Map()), [store, choice])
  const mark = useCallback((shown: Shown, isMarked?: boolean): void => {
    setMarked((before) => {
      const next = new Map(before)
      if (isMarked ?? !before.has(shown.key)) next.set(shown.key, shown.row)
      else next.delete(shown.key)
      return next
    })
  }, [])
  // The same as long as they show the same: the grid draws its rows anew when these change.
  const gutter = useCallback(
    (shown: Shown | undefined) =>
      shown && (
        <input
          type="checkbox"
          aria-label={`Mark row ${shown.key}`}
          checked={marked.has(shown.key)}
          tabIndex={-1}
          onChange={(event) => mark(shown, event.target.checked)}
        />
      ),
    [marked, mark],
  )
  const corner = useMemo(
    () => <MarkAll key={marked.size} marked={marked.size} onClear={() => setMarked(new Map())} />,
    [marked],
  )
  async function deleteMarked(): Promise<void> {
    const isYes = await confirm({
      title: `Delete ${plural(marked.size, 'row')}?`,
      text: `They are marked now, and go when you save. A saved deletion can be undone from the history.`,
      yes: 'Mark for deletion',
    })
    if (!isYes) return
    markDeleted(store, [...marked])
    setMarked(new Map())
  }
  return {
    marked,
    mark,
    deleteMarked,
    gutter,
    corner,
  }
}

const MarkAll = ({ marked, onClear }: { marked: number; onClear(): void }) =>
  marked === 0 ? (
    <span className="visually-hidden">Mark</span>
  ) : (
    <Button look="quiet small" icon="x" aria-label={`Unmark ${marked} rows`} title="Unmark all" onClick={onClear} />
  )
