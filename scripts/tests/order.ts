import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** Seconds by test file, of earlier runs. */
export type Times = ReadonlyMap<string, number>

export function readTimes(file: string): Times {
  try {
    return new Map(Object.entries(JSON.parse(readFileSync(file, 'utf8')) as Record<string, number>))
  } catch {
    return new Map()
  }
}

export function writeTimes(file: string, times: Times): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify(Object.fromEntries(times), null, 1))
}

/** In a fresh clone: what waits for processes, leases and browsers takes longest. */
const GUESSES: [RegExp, number][] = [
  [/\/faults\//, 20],
  [/\.abuse\.|\/journeys\/|browser|embedded/, 10],
]

/** Longest first, so that no long file is left for the end, when other processors have nothing to do. */
export function longestFirst(files: readonly string[], times: Times): string[] {
  const secondsOf = (file: string) => times.get(file) ?? GUESSES.find(([pattern]) => pattern.test(file))?.[1] ?? 2
  return files.toSorted((a, b) => secondsOf(b) - secondsOf(a))
}
