import { useState } from 'react'
import { kept } from '../../../parts/store.ts'

/** How a table's columns are shown, kept per table in this browser. */
export type Layout = { widths: Record<string, number>; hidden: string[]; pinned: string[]; order: string[] }

const strings = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []

function read(name: string): Layout {
  const found = (kept.read(name) ?? {}) as Partial<Record<keyof Layout, unknown>>
  const widths = Object.entries((found.widths ?? {}) as object).filter(([, width]) => typeof width === 'number')
  return {
    widths: Object.assign(Object.create(null), Object.fromEntries(widths)),
    hidden: strings(found.hidden),
    pinned: strings(found.pinned),
    order: strings(found.order),
  }
}

export function useLayout(table: string): [Layout, (change: Partial<Layout>) => void] {
  const name = `columns ${table}`
  const [layout, setLayout] = useState(() => read(name))
  const change = (part: Partial<Layout>): void =>
    setLayout((before) => {
      const next = { ...before, ...part }
      kept.write(name, next)
      return next
    })
  return [layout, change]
}

/** Names as the person ordered them; columns made since come last. */
export function ordered(names: readonly string[], { order }: Layout): string[] {
  const known = order.filter((name) => names.includes(name))
  return [...known, ...names.filter((name) => !known.includes(name))]
}

export function moved(names: readonly string[], name: string, before: string): string[] {
  const rest = names.filter((other) => other !== name)
  const at = rest.indexOf(before)
  return at < 0 ? [...rest, name] : [...rest.slice(0, at), name, ...rest.slice(at)]
}
