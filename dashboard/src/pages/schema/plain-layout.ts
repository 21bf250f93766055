export type Box = { width: number; height: number }
export type Line = { from: number; to: number }
export type Place = { x: number; y: number }

export const GAP = 40

/** Beside those they refer to, as far as a list allows. */
function nearOrder(count: number, lines: readonly Line[]): number[] {
  const near = Array.from({ length: count }, (): number[] => [])
  for (const { from, to } of lines) {
    near[from]?.push(to)
    near[to]?.push(from)
  }
  const seen = new Set<number>()
  for (let start = 0; start < count; start++) {
    const waiting = [start]
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
      if (seen.has(at)) continue
      seen.add(at)
      waiting.push(...(near[at] ?? []).filter((other) => !seen.has(other)))
    }
  }
  return [...seen]
}

/** In columns that make about a square: for what a layout by ranks cannot do, such as a chain of hundreds of tables. */
export function plainLayout(boxes: readonly Box[], lines: readonly Line[]): Place[] {
  const widest = Math.max(0, ...boxes.map(({ width }) => width)) + GAP
  const area = boxes.reduce((sum, { height }) => sum + (height + GAP) * widest, 0)
  // Wider than high, as screens are.
  const tallest = Math.sqrt(area / 1.6)
  const places: Place[] = boxes.map(() => ({ x: 0, y: 0 }))
  let [x, y] = [0, 0]
  for (const index of nearOrder(boxes.length, lines)) {
    const height = (boxes[index]?.height ?? 0) + GAP
    if (y > 0 && y + height > tallest) [x, y] = [x + widest, 0]
    places[index] = { x, y }
    y += height
  }
  return places
}
