import { after } from 'node:test'

const cleanups: (() => unknown)[] = []

/** Runs after the file, latest first. */
export const atEnd = (cleanup: () => unknown): void => void cleanups.push(cleanup)

/** Everything, also when a part of it fails. */
export async function end(): Promise<void> {
  const failures: unknown[] = []
  for (const cleanup of cleanups.splice(0).reverse()) {
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
