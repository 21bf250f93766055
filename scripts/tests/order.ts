import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Batches } from './batches.ts'

/** Seconds by name of a batch, of earlier runs. */
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
  [/\/faults\/|account-page/, 20],
  [/\.abuse\.|\/journeys\/|\/abuse\/|browser|embedded|pure/, 10],
]

/** Names of batches, longest first, so that no long one is left for the end, when other processors have nothing to do. */
export function longestFirst(batches: Batches, times: Times): string[] {
  const secondsOf = (name: string): number =>
    times.get(name) ?? GUESSES.find(([pattern]) => pattern.test(name))?.[1] ?? 2 * (batches.get(name)?.length ?? 1)
  return [...batches.keys()].sort((a, b) => secondsOf(b) - secondsOf(a))
}
