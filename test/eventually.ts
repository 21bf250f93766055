/** Repeats until it no longer throws; the last error is the failure. For things that happen soon, not at once. */
export async function eventually<T>(attempt: () => Promise<T> | T, { seconds = 10 } = {}): Promise<T> {
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
