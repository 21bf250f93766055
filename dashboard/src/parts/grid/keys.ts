import type { KeyboardEvent } from 'react'
import type { Spot } from './types.ts'

type Action =
  | { kind: 'go'; to: Spot }
  | { kind: 'type'; text: string }
  | { kind: 'all' | 'open' | 'clear' | 'edit' | 'mark' }

/** What a key means in a grid, as the WAI-ARIA practices and spreadsheets have it. */
export function keyAction(
  event: KeyboardEvent,
  { row, column }: Spot,
  size: { page: number; count: number; columns: number },
): Action | null {
  const isMeta = event.ctrlKey || event.metaKey
  const go = (to: Spot): Action => ({ kind: 'go', to })
  switch (event.key) {
    case 'ArrowDown':
      return go({ row: isMeta ? size.count - 1 : row + 1, column })
    case 'ArrowUp':
      return go({ row: isMeta ? 0 : row - 1, column })
    case 'ArrowRight':
      return go({ row, column: isMeta ? size.columns - 1 : column + 1 })
    case 'ArrowLeft':
      return go({ row, column: isMeta ? 0 : column - 1 })
    case 'PageDown':
      return go({ row: row + size.page, column })
    case 'PageUp':
      return go({ row: row - size.page, column })
    case 'Home':
      return go({ row: isMeta ? 0 : row, column: 0 })
    case 'End':
      return go({ row: isMeta ? size.count - 1 : row, column: size.columns - 1 })
    case 'Enter':
      return isMeta || event.shiftKey ? { kind: 'open' } : { kind: 'edit' }
    case 'F2':
      return { kind: 'edit' }
    case ' ':
      return { kind: event.shiftKey ? 'mark' : 'open' }
    case 'Delete':
    case 'Backspace':
      return { kind: 'clear' }
  }
  if (isMeta && event.key.toLowerCase() === 'a') return { kind: 'all' }
  if (!isMeta && !event.altKey && event.key.length === 1) return { kind: 'type', text: event.key }
  return null
}
