/**
 * What one request, and all requests of a process together, may hold. Exceeding one is a clear answer to whoever did;
 * it never ends the process and never delays anybody else. Times and rates are in the configuration.
 */
export const budgets = {
  /** Bytes of one answer: 413 `response too large`. */
  answerBytes: 64 * 2 ** 20,
  /** Request bodies that are arriving: of one address the oldest gives way, over all the oldest of the heaviest: 503. */
  arriving: { total: 256 * 2 ** 20, perAddress: 64 * 2 ** 20 },
  /** After its grace a body must have come at this rate on the whole: 408. */
  arrivalPace: { graceMs: 10_000, bytesPerSecond: 4 * 1024 },
  /** Answers that their readers have not taken yet; the connection of whoever gives way ends. */
  unsent: { total: 256 * 2 ** 20, perAddress: 128 * 2 ** 20 },
  /** An answer must be taken at this rate on the whole, a stream in every window of the grace, or the connection ends. */
  readingPace: { graceMs: 30_000, bytesPerSecond: 64 * 1024, streamBytesPerSecond: 4 * 1024 },
} as const
