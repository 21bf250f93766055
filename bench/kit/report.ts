import { mkdirSync, writeFileSync } from 'node:fs'

export type Figures = {
  rps: number
  p50: number
  p99: number
  /** Microseconds of processor time, user and system, per request. */
  nodeUs: number
  postgresUs: number
}

/** One scenario of the server beside the same work of the bare handler. */
export type Line = { scenario: string; ratio: number; bar: number; server: Figures; bare: Figures }

export const median = (numbers: readonly number[]): number => {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

const pad = (text: string, width: number) => text.padEnd(width)
const right = (text: string, width: number) => text.padStart(width)

const COLUMNS: readonly (readonly [title: string, width: number])[] = [
  ['server/s', 10],
  ['bare/s', 9],
  ['ratio', 7],
  ['bar', 6],
  ['p50 ms', 8],
  ['p99 ms', 8],
  ['node µs (bare)', 17],
  ['postgres µs (bare)', 20],
]
const row = (cells: readonly string[]) => cells.map((cell, i) => right(cell, COLUMNS[i]?.[1] ?? 0)).join('')

export function print(lines: readonly Line[]): void {
  console.log(`\n${pad('scenario', 34)}${row(COLUMNS.map(([title]) => title))}`)
  for (const { scenario, ratio, bar, server, bare } of lines) {
    const cells = [
      server.rps.toFixed(0),
      bare.rps.toFixed(0),
      ratio.toFixed(2),
      bar.toFixed(2),
      server.p50.toFixed(2),
      server.p99.toFixed(2),
      `${server.nodeUs.toFixed(0)} (${bare.nodeUs.toFixed(0)})`,
      `${server.postgresUs.toFixed(0)} (${bare.postgresUs.toFixed(0)})`,
    ]
    console.log(`${pad(scenario, 34)}${row(cells)}${ratio >= bar ? ' ok' : ' BELOW'}`)
  }
}

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** Bars of the ratios, with a tick where the bar to pass is. */
function chart(lines: readonly Line[]): string {
  const width = 420
  const most = Math.max(1, ...lines.map(({ ratio, bar }) => Math.max(ratio, bar)))
  const rows = lines.map(({ scenario, ratio, bar }, i) => {
    const y = 20 + i * 34
    const fill = ratio >= bar ? '#3a7d44' : '#b3402a'
    const tick = `<line x1="${300 + (bar / most) * width}" x2="${300 + (bar / most) * width}" y1="${y - 2}" y2="${y + 20}" stroke="#222" stroke-dasharray="3 2"/>`
    return `<text x="290" y="${y + 13}" text-anchor="end" font-size="12">${escaped(scenario)}</text>
<rect x="300" y="${y}" width="${(ratio / most) * width}" height="18" fill="${fill}"/>${tick}
<text x="${306 + (ratio / most) * width}" y="${y + 13}" font-size="11">${ratio.toFixed(2)}</text>`
  })
  const height = 40 + lines.length * 34
  return `<svg xmlns="http://www.w3.org/2000/svg" width="800" height="${height}" font-family="sans-serif">
<rect width="800" height="${height}" fill="#fff"/>
${rows.join('\n')}
</svg>
`
}

export function save(name: string, lines: readonly Line[], facts: object): void {
  const folder = new URL('../results/', import.meta.url)
  mkdirSync(folder, { recursive: true })
  writeFileSync(new URL(`${name}.json`, folder), `${JSON.stringify({ ...facts, lines }, null, 2)}\n`)
  writeFileSync(new URL(`${name}.svg`, folder), chart(lines))
  console.log(`\nwritten to bench/results/${name}.json and .svg`)
}
