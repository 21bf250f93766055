import { type ReactNode, useEffect, useId, useRef, useState } from 'react'

type ComboboxProps<Item> = {
  label: string
  value: string
  placeholder?: string
  find(search: string): Promise<readonly Item[]> | readonly Item[]
  keyOf(item: Item): string
  show(item: Item): ReactNode
  onChoose(item: Item): void
  hideLabel?: boolean
  autoFocus?: boolean
}

/** A field with a list of what fits, by the WAI-ARIA combobox pattern. */
export function Combobox<Item>(props: ComboboxProps<Item>) {
  const id = useId()
  const [typed, setTyped] = useState<string | null>(null)
  const [items, setItems] = useState<readonly Item[]>([])
  const [index, setIndex] = useState(0)
  const latest = useRef(0)
  const { find } = props
  useEffect(() => {
    if (typed === null) return
    const turn = ++latest.current
    const timer = setTimeout(async () => {
      const found = await find(typed)
      if (turn !== latest.current) return
      setItems(found)
      setIndex(0)
    }, 120)
    return () => clearTimeout(timer)
  }, [typed])
  const isOpen = typed !== null
  const choose = (item: Item | undefined): void => {
    if (item === undefined) return
    props.onChoose(item)
    setTyped(null)
  }
  const current = items[index]
  return (
    <div className="field combo">
      <label htmlFor={id} className={props.hideLabel ? 'visually-hidden' : ''}>
        {props.label}
      </label>
      <input
        id={id}
        className="input"
        role="combobox"
        aria-expanded={isOpen}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && current !== undefined ? `${id}-${index}` : undefined}
        autoComplete="off"
        autoFocus={props.autoFocus}
        placeholder={props.placeholder}
        value={typed ?? props.value}
        onFocus={(event) => event.target.select()}
        onChange={(event) => setTyped(event.target.value)}
        onClick={() => setTyped(typed ?? '')}
        onBlur={() => setTyped(null)}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
            event.preventDefault()
            if (!isOpen) setTyped('')
            else setIndex((index + (event.key === 'ArrowDown' ? 1 : items.length - 1)) % Math.max(1, items.length))
          } else if (event.key === 'Enter' && isOpen) {
            event.preventDefault()
            event.stopPropagation()
            choose(current)
          } else if (event.key === 'Escape' && isOpen) {
            event.preventDefault()
            event.stopPropagation()
            setTyped(null)
          }
        }}
      />
      {isOpen && (
        <div className="menu" role="listbox" id={`${id}-list`} aria-label={props.label} tabIndex={-1}>
          {items.map((item, at) => (
            <div
              key={props.keyOf(item)}
              id={`${id}-${at}`}
              role="option"
              tabIndex={-1}
              aria-selected={at === index}
              onMouseDown={(event) => {
                event.preventDefault()
                choose(item)
              }}
            >
              {props.show(item)}
            </div>
          ))}
          {items.length === 0 && <div className="muted">Nothing found</div>}
        </div>
      )}
    </div>
  )
}
