/**
 * Memory limits of one request and of all requests of a process. A client that exceeds one gets an error; other requests
 * are not delayed.
 */
export const budgets = {
  /** Bytes of one response: 413 `response too large`. */
  responseBytes: 64 * 2 ** 20,
  /** Incomplete request bodies. Above `perKey` the oldest of the address is evicted, above `total` that of the largest: 503. */
  incomingBodies: { total: 256 * 2 ** 20, perKey: 64 * 2 ** 20 },
  /** The least average rate of a request body after the grace: 408. */
  incomingPace: { graceMs: 10_000, bytesPerSecond: 4 * 1024 },
  /** While all places for uploads or exports are taken, a client that was slower than this for so long gives way: 503. */
  placePace: { seconds: 2, bytesPerSecond: 64 * 1024 },
  /**
   * Files on their way to clients, each with a piece in memory and its descriptors. Above `perKey` the one of the address
   * that was not read for longest is evicted, above `total` that of the largest address: its connection is closed.
   */
  downloads: { total: 256 * 2 ** 20, perKey: 32 * 2 ** 20, each: 256 * 1024 },
  /** Responses that clients have not read yet; the connection of an evicted one is closed. */
  unsentResponses: { total: 256 * 2 ** 20, perKey: 128 * 2 ** 20 },
  /** The least average rate at which a client reads a response, or a stream in each grace window; else it is disconnected. */
  readingPace: { graceMs: 30_000, bytesPerSecond: 64 * 1024, streamBytesPerSecond: 4 * 1024 },
  /** Bytes of incomplete query results over all flights of the process: 503. */
  queryResultBytes: 256 * 2 ** 20,
  /**
   * Text of the statements one connection keeps prepared. PostgreSQL needs about forty times as much for the plans, per
   * connection.
   */
  preparedBytes: 512 * 1024,
  /** A longer statement is not prepared. */
  preparedStatementBytes: 16 * 1024,
  /** Text of all named statements, over all connections. */
  statementNamesBytes: 8 * 2 ** 20,
} as const
