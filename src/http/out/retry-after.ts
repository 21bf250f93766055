const MAX_WAIT_SECONDS = 21_600

/** RFC 9110 §10.2.3: seconds or a date, at most MAX_WAIT_SECONDS. */
export function retryAfterOf(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined
  const seconds = /^\d+$/.test(header) ? Number(header) : Math.ceil((Date.parse(header) - now) / 1000)
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(seconds, 0), MAX_WAIT_SECONDS)
}
