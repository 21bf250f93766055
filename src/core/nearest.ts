const MAX_NAME = 100
const MAX_CANDIDATES = 5_000

/**
 * The name that was probably meant: the one with the fewest edits, if those are at most two or a third of the name, and not
 * all of it. Undefined where there is none.
 */
export function nearestName(given: string, candidates: Iterable<string>): string | undefined {
  if (given.length > MAX_NAME) return undefined
  const name = given.toLowerCase()
  // Two edits make any short word of any other.
  let most = name.length <= 3 ? Math.min(1, name.length - 1) : Math.max(2, Math.floor(name.length / 3))
  let best: string | undefined
  let left = MAX_CANDIDATES
  for (const candidate of candidates) {
    if (left-- === 0) break
    if (Math.abs(candidate.length - name.length) > most) continue
    const edits = editsBetween(name, candidate.toLowerCase(), most)
    if (edits > most || (edits === most && best !== undefined)) continue
    best = candidate
    most = edits
  }
  return best
}

/** Insertions, deletions, replacements and swaps of neighbours; more than `most` where there are more. */
function editsBetween(a: string, b: string, most: number): number {
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    let least = i
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1]
      let edits = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (isSame ? 0 : 1))
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (isSwap) edits = Math.min(edits, (before[j - 2] ?? 0) + 1)
      row.push(edits)
      least = Math.min(least, edits)
    }
    if (least > most) return least
    before = last
    last = row
  }
  return last[b.length] ?? 0
}
