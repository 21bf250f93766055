/** RFC 4180, with any line ends. A cell that was quoted is text even if it is empty. */
export function parseCsv(source: string, most = Number.POSITIVE_INFINITY): (string | null)[][] {
  const separator =
    (source.slice(0, source.indexOf('\n') + 1 || undefined).match(/;/g)?.length ?? 0) >
    (source.match(/^[^\n]*/)?.[0].match(/,/g)?.length ?? 0)
      ? ';'
      : ','
  const rows: (string | null)[][] = []
  let row: (string | null)[] = []
  const cell = new RegExp(`"((?:[^"]|"")*)"|([^${separator}\\r\\n"]*)`, 'y')
  let at = source.charCodeAt(0) === 0xfeff ? 1 : 0
  while (at <= source.length && rows.length < most) {
    cell.lastIndex = at
    const found = cell.exec(source)
    if (!found) throw new Error(`line ${rows.length + 1}: a quote stands where none may`)
    row.push(found[1] === undefined ? found[2] || null : found[1].replaceAll('""', '"'))
    at = cell.lastIndex
    const next = source[at]
    if (next === separator) {
      at++
      continue
    }
    if (next !== undefined && next !== '\n' && next !== '\r')
      throw new Error(`line ${rows.length + 1}: something follows a quoted cell`)
    if (next === '\r' && source[at + 1] === '\n') at++
    at++
    if (row.length > 1 || row[0] !== null) rows.push(row)
    row = []
  }
  return rows
}

const quoted = (value: string): string =>
  value === '' || /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value

/** NULL is empty, an empty text is quoted. */
export const toCsv = (rows: readonly (readonly (string | null)[])[]): string =>
  `${rows.map((row) => row.map((value) => (value === null ? '' : quoted(value))).join()).join('\n')}\n`
