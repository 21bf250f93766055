import { useEffect, useState } from 'react'
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
  const mark = (shown: Shown, isMarked = !marked.has(shown.key)): void => {
    const next = new Map(marked)
    if (isMarked) next.set(shown.key, shown.row)
    else next.delete(shown.key)
    setMarked(next)
  }
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
    gutter: (shown: Shown | undefined) =>
      shown && (
        <input
          type="checkbox"
          aria-label={`Mark row ${shown.key}`}
          checked={marked.has(shown.key)}
          tabIndex={-1}
          onChange={(event) => mark(shown, event.target.checked)}
        />
      ),
    corner: <MarkAll key={marked.size} marked={marked.size} onClear={() => setMarked(new Map())} />,
  }
}

const MarkAll = ({ marked, onClear }: { marked: number; onClear(): void }) =>
  marked === 0 ? (
    <span className="visually-hidden">Mark</span>
  ) : (
    <Button look="quiet small" icon="x" aria-label={`Unmark ${marked} rows`} title="Unmark all" onClick={onClear} />
  )
