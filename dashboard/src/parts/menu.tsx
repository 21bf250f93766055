import { type KeyboardEvent, type ReactNode, useEffect, useEffectEvent, useId, useRef, useState } from 'react'
import { Icon, type IconName } from './icon.tsx'

export type MenuItem =
  | {
      label: string
      icon?: IconName
      run(): void
      danger?: boolean
      checked?: boolean
      end?: string
      disabled?: boolean
    }
  | '-'

/** Puts a popover beside its button, inside of the window. */
function place(popover: HTMLElement, anchor: DOMRect): void {
  const { width, height } = popover.getBoundingClientRect()
  const left = Math.max(8, Math.min(anchor.left, innerWidth - width - 8))
  const below = anchor.bottom + 4
  const top = below + height > innerHeight - 8 ? Math.max(8, anchor.top - height - 4) : below
  popover.style.left = `${left}px`
  popover.style.top = `${top}px`
}

function step(event: KeyboardEvent<HTMLElement>): void {
  const items = [...event.currentTarget.querySelectorAll<HTMLElement>('[role^="menuitem"]:not([aria-disabled="true"])')]
  const index = items.indexOf(document.activeElement as HTMLElement)
  const to = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: -1 }[event.key]
  if (to !== undefined) {
    event.preventDefault()
    items.at(to % items.length)?.focus()
    return
  }
  if (event.key.length !== 1) return
  const letter = event.key.toLowerCase()
  const after = [...items.slice(index + 1), ...items.slice(0, index + 1)]
  after.find((item) => item.textContent?.trim().toLowerCase().startsWith(letter))?.focus()
}

type MenuProps = { label: string; items: readonly MenuItem[]; at: DOMRect; onClose(): void }

/** The items of a menu in the browser's top layer. A click elsewhere and Escape close it. */
export function MenuList({ label, items, at, onClose }: MenuProps) {
  const list = useRef<HTMLDivElement>(null)
  const closed = useEffectEvent(onClose)
  const open = useEffectEvent((element: HTMLElement) => {
    element.showPopover()
    place(element, at)
    element.querySelector<HTMLElement>('[role^="menuitem"]')?.focus()
  })
  useEffect(() => {
    const element = list.current
    if (!element) return
    open(element)
    const onToggle = (event: Event): void => {
      if ((event as ToggleEvent).newState === 'closed') closed()
    }
    element.addEventListener('toggle', onToggle)
    return () => element.removeEventListener('toggle', onToggle)
  }, [])
  return (
    <div ref={list} className="menu" popover="auto" role="menu" aria-label={label} onKeyDown={step}>
      {items.map((item, index) =>
        item === '-' ? (
          <hr key={index} />
        ) : (
          <button
            key={item.label}
            type="button"
            tabIndex={-1}
            role={item.checked === undefined ? 'menuitem' : 'menuitemcheckbox'}
            aria-checked={item.checked}
            aria-disabled={item.disabled || undefined}
            className={item.danger ? 'danger' : ''}
            onClick={() => {
              if (item.disabled) return
              if (item.checked === undefined) list.current?.hidePopover()
              item.run()
            }}
          >
            {item.checked === undefined ? (
              item.icon && <Icon name={item.icon} />
            ) : (
              <Icon name={item.checked ? 'check' : 'minus'} />
            )}
            {item.label}
            {item.end && <span className="end">{item.end}</span>}
          </button>
        ),
      )}
    </div>
  )
}

type MenuButtonProps = {
  label: string
  items: readonly MenuItem[]
  look?: string
  icon?: IconName
  children?: ReactNode
}

export function MenuButton({ label, items, look = '', icon, children }: MenuButtonProps) {
  const button = useRef<HTMLButtonElement>(null)
  const [at, setAt] = useState<DOMRect | null>(null)
  const id = useId()
  const open = (): void => setAt(button.current?.getBoundingClientRect() ?? null)
  return (
    <>
      <button
        ref={button}
        id={id}
        type="button"
        className={`button ${look}${children === undefined ? ' square' : ''}`}
        aria-haspopup="menu"
        aria-expanded={at !== null}
        aria-label={children === undefined ? label : undefined}
        title={children === undefined ? label : undefined}
        onClick={() => (at ? setAt(null) : open())}
        onKeyDown={(event) => {
          if (event.key !== 'ArrowDown') return
          event.preventDefault()
          open()
        }}
      >
        {icon && <Icon name={icon} />}
        {children}
      </button>
      {at && (
        <MenuList
          label={label}
          items={items}
          at={at}
          onClose={() => {
            setAt(null)
            if (document.activeElement === document.body) button.current?.focus()
          }}
        />
      )}
    </>
  )
}
