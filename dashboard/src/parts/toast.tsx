import { useEffect, useRef } from 'react'
import { sentence } from '../api/client.ts'
import { Icon } from './icon.tsx'
import { Meaning } from './meaning.tsx'
import { createStore } from './store.ts'

type Toast = { id: number; text: string; bad: boolean; error?: unknown; action?: { label: string; run(): void } }

const toasts = createStore<Toast[]>([])
let ids = 0

const drop = (id: number): void => toasts.set(toasts.get().filter((toast) => toast.id !== id))

/** Says a line in the corner for a while; failures stay until they are closed. */
export function toast(text: string, options: Partial<Pick<Toast, 'bad' | 'error' | 'action'>> = {}): void {
  const id = ++ids
  const { error, bad = error !== undefined, action } = options
  toasts.set([...toasts.get().slice(-3), { id, text, bad, error, ...(action && { action }) }])
  setTimeout(() => drop(id), bad ? 15_000 : action ? 12_000 : 5_000)
}

/** Says what went wrong. */
export const failed = (error: unknown): void => toast(sentence(error), { error })

export function Toasts() {
  const all = toasts.use()
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    // In the top layer, so that an open dialog does not hide them.
    const element = box.current
    if (!element) return
    if (all.length === 0) element.hidePopover()
    else {
      element.hidePopover()
      element.showPopover()
    }
  }, [all])
  return (
    <div ref={box} className="toasts" popover="manual" role="status" aria-live="polite">
      {all.map(({ id, text, bad, error, action }) => (
        <div key={id} className={bad ? 'toast bad' : 'toast'}>
          <span>
            {text} <Meaning error={error} />
          </span>
          {action && (
            <button
              type="button"
              onClick={() => {
                drop(id)
                action.run()
              }}
            >
              {action.label}
            </button>
          )}
          <button type="button" className="close" aria-label="Close" onClick={() => drop(id)}>
            <Icon name="x" />
          </button>
        </div>
      ))}
    </div>
  )
}
