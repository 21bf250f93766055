import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Batches } from './batches.ts'

/** Seconds by batch name in earlier runs. */
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

/** Estimates for a fresh clone: tests that wait for processes, leases and browsers take longest. */
const GUESSES: [RegExp, number][] = [
  [/\/browser$/, 60],
  [/\/cli\.test$/, 40],
  [/\/faults\/|embed\.test|backups\.test|-\d+$/, 20],
  [/\.abuse\.|\/journeys\/|\/abuse\/|browser|embedded|pure/, 10],
]

/** Batch names, longest first, so that all processors are busy until the end. */
export function longestFirst(batches: Batches, times: Times): string[] {
  const secondsOf = (name: string): number =>
    times.get(name) ?? GUESSES.find(([pattern]) => pattern.test(name))?.[1] ?? 2 * (batches.get(name)?.length ?? 1)
  return [...batches.keys()].sort((a, b) => secondsOf(b) - secondsOf(a))
}
