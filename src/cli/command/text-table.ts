const MAX_WIDTH = 60

/** Aligned columns as in psql. Long values are cut; --json has them in full. */
export function textTable(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const shown = rows.map((row) => row.map((cell) => cut(cell.replaceAll(/\s+/g, ' '))))
  const widths = columns.map((name, i) => Math.max(name.length, ...shown.map((row) => row[i]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd()
  return [line(columns), widths.map((width) => '-'.repeat(width)).join('  '), ...shown.map(line)].join('\n')
}

const cut = (text: string): string => (text.length > MAX_WIDTH ? `${text.slice(0, MAX_WIDTH - 1)}…` : text)
