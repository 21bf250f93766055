import { text } from '../format.ts'

const quoted = (value: string): string => (/[\t\n\r"]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value)

/** As spreadsheets copy: tabs between cells, quotes where a cell has tabs or lines of its own. NULL is empty. */
export const toTsv = (rows: readonly (readonly unknown[])[]): string =>
  rows.map((row) => row.map((value) => quoted(text(value))).join('\t')).join('\n')

/** As spreadsheets paste. */
export function fromTsv(source: string): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  let at = 0
  while (at < source.length) {
    let cell = ''
    if (source[at] === '"') {
      at++
      for (; at < source.length; at++) {
        if (source[at] !== '"') cell += source[at]
        else if (source[at + 1] === '"') {
          cell += '"'
          at++
        } else break
      }
      at++
    } else {
      const end = source.slice(at).search(/[\t\n\r]/)
      cell = end < 0 ? source.slice(at) : source.slice(at, at + end)
      at += cell.length
    }
    row.push(cell)
    const next = source[at]
    if (next === '\t') {
      at++
      if (at >= source.length) row.push('')
      continue
    }
    if (next === '\r' && source[at + 1] === '\n') at++
    at++
    rows.push(row)
    row = []
  }
  if (row.length > 0) rows.push(row)
  return rows
}
