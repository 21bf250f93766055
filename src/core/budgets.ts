/**
 * What one request, and all requests of a process together, may hold. Exceeding one is a clear answer to whoever did;
 * it never ends the process and never delays anybody else. Times and rates are in the configuration.
 */
export const budgets = {
  /** Bytes of one answer: 413 `response too large`. */
  responseBytes: 64 * 2 ** 20,
  /** Request bodies that are arriving: of one address the oldest gives way, over all the oldest of the heaviest: 503. */
  incomingBodies: { total: 256 * 2 ** 20, perKey: 64 * 2 ** 20 },
  /** After its grace a body must have come at this rate on the whole: 408. */
  incomingPace: { graceMs: 10_000, bytesPerSecond: 4 * 1024 },
  /** Answers that their readers have not taken yet; the connection of whoever gives way ends. */
  unsentResponses: { total: 256 * 2 ** 20, perKey: 128 * 2 ** 20 },
  /** An answer must be taken at this rate on the whole, a stream in every window of the grace, or the connection ends. */
  readingPace: { graceMs: 30_000, bytesPerSecond: 64 * 1024, streamBytesPerSecond: 4 * 1024 },
  /** Bytes of answers that are arriving, over all flights of the process: 503. */
  queryResultBytes: 256 * 2 ** 20,
  /**
   * Text of the statements one connection keeps prepared. PostgreSQL needs some forty times as much for the plans, and
   * every connection has its own.
   */
  preparedBytes: 512 * 1024,
  /** A longer statement is parsed each time. */
  preparedStatementBytes: 16 * 1024,
  /** Text of all statements that have names, over all connections. */
  statementNamesBytes: 8 * 2 ** 20,
} as const
