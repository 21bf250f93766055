import { mkdirSync, writeFileSync } from 'node:fs'

export type Line = {
  scenario: string
  /** What it is measured against. */
  against: string
  ratio: number
  bar: number
  server: { rps: number; p50: number; p99: number }
  mark: { rps: number; p50: number; p99: number }
}

export const median = (numbers: readonly number[]): number => {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

const pad = (text: string, width: number) => text.padEnd(width)
const right = (text: string, width: number) => text.padStart(width)

export function print(lines: readonly Line[]): void {
  console.log(
    `\n${pad('scenario', 34)}${pad('against', 34)}${right('server/s', 10)}${right('mark/s', 10)}${right('ratio', 8)}${right('bar', 7)}${right('p50 ms', 9)}${right('p99 ms', 9)}`,
  )
  for (const line of lines) {
    const verdict = line.bar === 0 ? '' : line.ratio >= line.bar ? ' ok' : ' BELOW'
    console.log(
      pad(line.scenario, 34) +
        pad(line.against, 34) +
        right(line.server.rps.toFixed(0), 10) +
        right(line.mark.rps.toFixed(0), 10) +
        right(line.ratio.toFixed(2), 8) +
        right(line.bar === 0 ? '' : line.bar.toFixed(2), 7) +
        right(line.server.p50.toFixed(2), 9) +
        right(line.server.p99.toFixed(2), 9) +
        verdict,
    )
  }
}

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** Bars of the ratios, with a tick where the bar to pass is. */
function chart(lines: readonly Line[]): string {
  const width = 420
  const most = Math.max(1, ...lines.map(({ ratio, bar }) => Math.max(ratio, bar)))
  const rows = lines.map(({ scenario, against, ratio, bar }, i) => {
    const y = 20 + i * 34
    const fill = bar === 0 || ratio >= bar ? '#3a7d44' : '#b3402a'
    const tick =
      bar === 0
        ? ''
        : `<line x1="${300 + (bar / most) * width}" x2="${300 + (bar / most) * width}" y1="${y - 2}" y2="${y + 20}" stroke="#222" stroke-dasharray="3 2"/>`
    return `<text x="290" y="${y + 8}" text-anchor="end" font-size="12">${escaped(scenario)}</text>
<text x="290" y="${y + 20}" text-anchor="end" font-size="9" fill="#666">against ${escaped(against)}</text>
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
  const folder = new URL('./results', import.meta.url)
  mkdirSync(folder, { recursive: true })
  writeFileSync(new URL(`${name}.json`, folder), `${JSON.stringify({ ...facts, lines }, null, 2)}\n`)
  writeFileSync(new URL(`${name}.svg`, folder), chart(lines))
  console.log(`\nwritten to bench/results/${name}.json and .svg`)
}
