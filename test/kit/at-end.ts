import { after } from 'node:test'

const cleanups: (() => unknown)[] = []
const last: (() => unknown)[] = []

/** Runs after the file, latest first. */
export const atEnd = (cleanup: () => unknown): void => void cleanups.push(cleanup)

/** Runs after the last file of the process. */
export const atProcessEnd = (cleanup: () => unknown): void => void last.push(cleanup)

/** Begins after the file; the next one need not wait for it. A failure is told after the last. */
export const begunAtEnd = (cleanup: () => Promise<unknown>): void =>
  atEnd(() => {
    const done = cleanup()
    done.catch(() => undefined)
    atProcessEnd(() => done)
  })

let ending: Promise<void> = Promise.resolve()

/** Everything, also when a part of it fails. One after the other: Node's own hook may come while the runner is at it. */
export function end(): Promise<void> {
  const now = ending.then(() => run(cleanups.splice(0)))
  ending = now.catch(() => undefined)
  return now
}

export const endProcess = (): Promise<void> => ending.then(() => run(last.splice(0)))

async function run(all: (() => unknown)[]): Promise<void> {
  const failures: unknown[] = []
  for (const cleanup of all.reverse()) {
    try {
      await cleanup()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}

// Of the file, and not of the test that happens to call atEnd.
after(end)
