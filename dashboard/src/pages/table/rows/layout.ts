import { useEffect, useMemo, useState } from 'react'
import { useAddress } from '../../../app/navigate.tsx'
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

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The columns in view as the address has them; nothing where all are shown, as the table has them. */
function columnsText(names: readonly string[], layout: Layout): string | undefined {
  const shown = ordered(names, layout).filter((id) => !layout.hidden.includes(id))
  const isPlain = shown.length === names.length && shown.every((id, index) => id === names[index])
  return isPlain ? undefined : shown.map(encodeURIComponent).join()
}

/** Which columns are shown, and in which order, stands in the address; widths and pins are the browser's. */
export function useLayout(table: string, names: readonly string[]): [Layout, (change: Partial<Layout>) => void] {
  const name = `columns ${table}`
  const [{ columns }, go] = useAddress()
  const [own, setOwn] = useState(() => read(name))
  const layout = useMemo((): Layout => {
    const shown = columns
      ?.split(',')
      .map(decoded)
      .filter((id) => names.includes(id))
    return shown && shown.length > 0
      ? { ...own, order: shown, hidden: names.filter((id) => !shown.includes(id)) }
      : { ...own, order: [], hidden: [] }
  }, [columns, own, names])
  // As it was left here, for an address that says nothing of it.
  useEffect(() => {
    const before = columnsText(names, read(name))
    if (columns === undefined && before !== undefined) go({ columns: before }, { replace: true })
  }, [name])
  const change = (part: Partial<Layout>): void => {
    const next = { ...layout, ...part }
    kept.write(name, next)
    setOwn(next)
    if (part.hidden || part.order) go({ columns: columnsText(names, next) })
  }
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
