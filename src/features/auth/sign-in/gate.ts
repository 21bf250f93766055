import { serverBusy } from '../../../core/errors.ts'

/**
 * Lets few calls per key work at a time and keeps the others in line. Counting failures after the fact would let any
 * number of parallel guesses through before the first one is counted.
 */
export function createGate(width: number, maxWaiting: number) {
  const lines = new Map<string, { inside: number; waiting: (() => void)[] }>()

  async function enter(key: string): Promise<void> {
    const line = lines.get(key) ?? { inside: 0, waiting: [] }
    lines.set(key, line)
    if (line.inside < width) {
      line.inside++
      return
    }
    if (line.waiting.length >= maxWaiting) throw serverBusy()
    await new Promise<void>((resolve) => line.waiting.push(resolve))
  }

  function leave(key: string): void {
    const line = lines.get(key)
    if (!line) return
    const next = line.waiting.shift()
    if (next) next()
    else if (--line.inside === 0) lines.delete(key)
  }

  return async <T>(key: string, work: () => Promise<T>): Promise<T> => {
    await enter(key)
    try {
      return await work()
    } finally {
      leave(key)
    }
  }
}
