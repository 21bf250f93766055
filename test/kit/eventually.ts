/** A deadline costs nothing when the thing happens, and a busy machine may take its time. */
export const PATIENCE_MS = 60_000

/** Repeats until it no longer throws; the last error is the failure. For things that happen soon, not at once. */
export async function eventually<T>(attempt: () => Promise<T> | T, { seconds = PATIENCE_MS / 1000 } = {}): Promise<T> {
  const deadline = Date.now() + seconds * 1000
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (Date.now() > deadline) throw error
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
  }
}
