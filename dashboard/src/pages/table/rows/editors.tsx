import { type KeyboardEvent, useLayoutEffect, useRef, useState } from 'react'
import type { Column } from '../../../api/schema.ts'
import { toast } from '../../../parts/toast.tsx'
import { editText, kindOf, parseCell } from './values.ts'

export type EditorProps = {
  column: Column
  value: unknown
  /** Instead of the value: the key that began it. */
  typed: string | undefined
  onDone(value: unknown, move: 'down' | 'right' | 'left' | 'stay'): void
  onCancel(): void
}

/** What is edited in its cell; the rest has a dialog. */
export const isInline = (column: Column, value: unknown): boolean => {
  const kind = kindOf(column)
  if (kind === 'json' || kind === 'array' || kind === 'bytes' || kind === 'place' || kind === 'vector') return false
  return typeof value !== 'string' || value.length < 2_000
}

export function CellEditor(props: EditorProps) {
  const { column, value, typed, onDone, onCancel } = props
  const kind = kindOf(column)
  const isLong = kind === 'text' && (/\n/.test(String(value ?? '')) || String(value ?? '').length > 60)
  const [text, setText] = useState(typed ?? editText(column, value))
  const field = useRef<HTMLInputElement & HTMLSelectElement & HTMLTextAreaElement>(null)
  const isOver = useRef(false)
  // With the field itself, so that no key falls between.
  useLayoutEffect(() => {
    field.current?.focus()
    if (typed === undefined) field.current?.select?.()
  }, [typed])

  function finish(move: Parameters<EditorProps['onDone']>[1], given = text): void {
    if (isOver.current) return
    if (typed === undefined && given === editText(column, value)) {
      isOver.current = true
      onDone(value, move)
      return
    }
    try {
      const parsed = parseCell(column, given)
      isOver.current = true
      onDone(parsed, move)
    } catch (error) {
      toast(`${column.name}: ${(error as Error).message}`, { bad: true })
      field.current?.focus()
    }
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    event.stopPropagation()
    if (event.key === 'Escape') {
      event.preventDefault()
      isOver.current = true
      onCancel()
    } else if (event.key === 'Enter' && !(isLong && event.shiftKey)) {
      event.preventDefault()
      finish('down')
    } else if (event.key === 'Tab') {
      event.preventDefault()
      finish(event.shiftKey ? 'left' : 'right')
    }
  }
  const common = { ref: field, 'aria-label': `Edit ${column.name}`, onKeyDown, onBlur: () => finish('stay') }
  if (kind === 'boolean' || kind === 'enum') {
    const options = kind === 'boolean' ? ['true', 'false'] : (column.enumValues ?? [])
    const current = value === null || value === undefined ? '' : String(value)
    return (
      <select
        {...common}
        defaultValue={current}
        onBlur={onCancel}
        onChange={(event) => {
          const chosen = event.target.value
          if (chosen === '') {
            isOver.current = true
            onDone(null, 'stay')
          } else finish('stay', chosen)
        }}
      >
        {(column.nullable || current === '') && <option value="">NULL</option>}
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    )
  }
  const editing = {
    ...common,
    value: text,
    onChange: (event: { target: { value: string } }) => setText(event.target.value),
  }
  if (isLong) return <textarea {...editing} rows={5} />
  return (
    <input
      {...editing}
      type={kind === 'date' && typed === undefined ? 'date' : 'text'}
      inputMode={kind === 'number' ? 'decimal' : 'text'}
      spellCheck={false}
    />
  )
}
